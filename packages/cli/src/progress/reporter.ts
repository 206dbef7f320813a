import type { Clock, ProgressEvent } from '@holdfast/core/contract';
import { type JsonObject, toJson } from '../json.ts';
import { ProgressState } from './progress-state.ts';
import { renderBars } from './render-bars.ts';
import { renderLine } from './render-line.ts';

/** Standard error, as far as the progress needs it. */
export interface ProgressStream {
  write(text: string): unknown;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
}

/** `bars` move; `plain` is a line every ten seconds; `json` is a line for every event; `none` shows nothing. */
export type ProgressMode = 'bars' | 'plain' | 'json' | 'none';

export interface Task {
  /** What is being done to the bytes: `saved`, `restored`, `verified`. */
  readonly verb: string;
  /** A line to keep on the screen for this event, if it deserves one. */
  readonly headline: (event: ProgressEvent, state: ProgressState) => string | null;
}

/** Shows one long call, and lets messages through between its lines. */
export interface Reporter {
  readonly state: ProgressState;
  begin(task: Task): Promise<void>;
  readonly onProgress: (event: ProgressEvent) => void;
  /** A line of its own that stays. */
  write(line: string): void;
  /** Takes moving lines away. Safe to repeat. */
  end(): void;
}

export interface ReporterOptions {
  readonly mode: ProgressMode;
  readonly stream: ProgressStream;
  readonly clock: Clock;
}

export function createReporter(options: ReporterOptions): Reporter {
  const state = new ProgressState();
  let view: View =
    options.mode === 'json' ? new EventView(options.stream, options.clock) : new PlainView(options.stream);
  let task: Task | null = null;
  return {
    state,
    async begin(given) {
      task = given;
      state.beganAtMs = options.clock.monotonicMs();
      view = await openView(options, state, given.verb, view);
    },
    onProgress(event) {
      state.apply(event, options.clock.monotonicMs());
      view.event?.(event);
      const line = task?.headline(event, state) ?? null;
      if (line !== null && options.mode !== 'none' && options.mode !== 'json') view.write(line);
    },
    write: (line) => view.write(line),
    end: () => view.end?.(),
  };
}

interface View {
  event?(event: ProgressEvent): void;
  write(line: string): void;
  end?(): void;
}

async function openView(
  options: ReporterOptions,
  state: ProgressState,
  verb: string,
  current: View,
): Promise<View> {
  const { stream, clock } = options;
  switch (options.mode) {
    case 'none':
    case 'json':
      return current;
    case 'plain':
      return new PlainView(stream, () => renderLine(state, verb, clock.monotonicMs()));
    case 'bars':
      return BarView.open(stream, (screen) => renderBars(state, verb, clock.monotonicMs(), screen));
  }
}

const PLAIN_LINE_EVERY_MS = 10_000;

class PlainView implements View {
  readonly #stream: ProgressStream;
  readonly #timer: NodeJS.Timeout | null;

  constructor(stream: ProgressStream, line?: () => string) {
    this.#stream = stream;
    this.#timer =
      line === undefined ? null : setInterval(() => this.write(line()), PLAIN_LINE_EVERY_MS).unref();
  }

  write(line: string): void {
    this.#stream.write(`${line}\n`);
  }

  end(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }
}

const BYTES_EVENT_EVERY_MS = 200;

/** One JSON object per line. Of a file's bytes at most five events a second, and always the last one. */
class EventView implements View {
  readonly #stream: ProgressStream;
  readonly #clock: Clock;
  readonly #shownAtMs = new Map<string, number>();

  constructor(stream: ProgressStream, clock: Clock) {
    this.#stream = stream;
    this.#clock = clock;
  }

  event(event: ProgressEvent): void {
    if (event.type === 'bytes' && event.doneBytes < event.totalBytes) {
      const nowMs = this.#clock.monotonicMs();
      if (nowMs - (this.#shownAtMs.get(event.name) ?? Number.NEGATIVE_INFINITY) < BYTES_EVENT_EVERY_MS)
        return;
      this.#shownAtMs.set(event.name, nowMs);
    }
    this.#emit(toJson(event) as JsonObject);
  }

  write(line: string): void {
    this.#emit({ type: 'message', text: line });
  }

  #emit(event: JsonObject): void {
    this.#stream.write(`${JSON.stringify({ at: new Date(this.#clock.nowMs()).toISOString(), ...event })}\n`);
  }
}

const REDRAW_EVERY_MS = 100;

interface Redraw {
  (text: string): void;
  clear(): void;
  done(): void;
}

class BarView implements View {
  readonly #stream: ProgressStream;
  readonly #redraw: Redraw;
  readonly #lines: (screen: { columns: number; rows: number }) => string[];
  readonly #timer: NodeJS.Timeout;
  #ended = false;

  static async open(
    stream: ProgressStream,
    lines: (screen: { columns: number; rows: number }) => string[],
  ): Promise<BarView> {
    // Only a terminal needs it: a call in a script does not wait for it to load.
    const { createLogUpdate } = await import('log-update');
    return new BarView(
      stream,
      createLogUpdate(sizedStream(stream) as unknown as NodeJS.WritableStream),
      lines,
    );
  }

  private constructor(
    stream: ProgressStream,
    redraw: Redraw,
    lines: (screen: { columns: number; rows: number }) => string[],
  ) {
    this.#stream = stream;
    this.#redraw = redraw;
    this.#lines = lines;
    this.#timer = setInterval(() => this.#draw(), REDRAW_EVERY_MS).unref();
  }

  event(event: ProgressEvent): void {
    if (event.type !== 'bytes') this.#draw();
  }

  write(line: string): void {
    this.#redraw.clear();
    this.#stream.write(`${line}\n`);
    this.#draw();
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearInterval(this.#timer);
    this.#redraw.clear();
    this.#redraw.done();
  }

  #draw(): void {
    if (this.#ended) return;
    const lines = this.#lines(screenOf(this.#stream));
    if (lines.length > 0) this.#redraw(lines.join('\n'));
    else this.#redraw.clear();
  }
}

// A pseudo terminal that nobody gave a size says 0.
function screenOf(stream: ProgressStream): { columns: number; rows: number } {
  return { columns: stream.columns || 80, rows: stream.rows || 24 };
}

function sizedStream(stream: ProgressStream) {
  return {
    isTTY: true,
    write: (text: string) => stream.write(text),
    get columns() {
      return screenOf(stream).columns;
    },
    get rows() {
      return screenOf(stream).rows;
    },
  };
}
