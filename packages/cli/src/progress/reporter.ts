import type { Clock, ProgressEvent } from '@holdfast/core/contract';
import { formatBytes, printable } from '../format.ts';
import { type JsonObject, toJson } from '../json.ts';
import { ProgressState } from './progress-state.ts';
import { renderBars, type Screen } from './render-bars.ts';
import { renderLine } from './render-line.ts';

/** The used part of standard error. */
export interface ProgressStream {
  write(text: string): unknown;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
}

/**
 * `bars` are redrawn; `plain` is a line every ten seconds; `json` is a line for every event; `none`
 * shows nothing.
 */
export type ProgressMode = 'bars' | 'plain' | 'json' | 'none';

export interface Task {
  /** The operation on the bytes: `saved`, `restored`, `verified`. */
  readonly verb: string;
  /** A permanent line for this event, or `null`. */
  readonly headline: (event: ProgressEvent, state: ProgressState) => string | null;
}

/** Display of a running call. */
export interface Picture {
  /** Lines of a terminal that are redrawn in place. */
  readonly bars: (nowMs: number, screen: Screen) => string[];
  /** One line for a log; empty: none now. */
  readonly line: (nowMs: number) => string;
}

/** Shows the progress of one long call, and prints messages between its lines. */
export interface Reporter {
  readonly state: ProgressState;
  begin(task: Task): Promise<void>;
  /** For a call that moves no files: only `picture` is shown. */
  watch(picture: Picture): Promise<void>;
  /** For `--progress json` only. */
  event(event: JsonObject): void;
  readonly onProgress: (event: ProgressEvent) => void;
  /** Prints a permanent line. */
  write(line: string): void;
  /** Hides redrawn lines while `print` runs. */
  aside(print: () => void): void;
  /** Removes redrawn lines. Safe to repeat. */
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
  const watch = async (picture: Picture) => {
    view = await openView(options, picture, view);
  };
  return {
    state,
    async begin(given) {
      task = given;
      state.beganAtMs = options.clock.monotonicMs();
      await watch({
        bars: (nowMs, screen) => renderBars(state, given.verb, nowMs, screen),
        line: (nowMs) => renderLine(state, given.verb, nowMs),
      });
    },
    watch,
    event: (event) => view.emit?.(event),
    onProgress(event) {
      state.apply(event, options.clock.monotonicMs());
      view.event?.(event);
      const line = task?.headline(event, state) ?? resumedLine(event);
      if (line !== null && options.mode !== 'none' && options.mode !== 'json') view.write(line);
    },
    write: (line) => view.write(line),
    aside: (print) => (view.aside === undefined ? print() : view.aside(print)),
    end: () => view.end?.(),
  };
}

/** The same for every operation. */
function resumedLine(event: ProgressEvent): string | null {
  if (event.type !== 'resumed') return null;
  return `resumed   ${printable(event.name)}   ${formatBytes(event.keptBytes)} were already there, from an interrupted save`;
}

interface View {
  event?(event: ProgressEvent): void;
  emit?(event: JsonObject): void;
  write(line: string): void;
  aside?(print: () => void): void;
  end?(): void;
}

async function openView(options: ReporterOptions, picture: Picture, current: View): Promise<View> {
  const { stream, clock } = options;
  switch (options.mode) {
    case 'none':
    case 'json':
      return current;
    case 'plain':
      return new PlainView(stream, () => picture.line(clock.monotonicMs()));
    case 'bars':
      return BarView.open(stream, (screen) => picture.bars(clock.monotonicMs(), screen));
  }
}

const PLAIN_LINE_EVERY_MS = 10_000;

class PlainView implements View {
  readonly #stream: ProgressStream;
  readonly #timer: NodeJS.Timeout | null;

  constructor(stream: ProgressStream, line?: () => string) {
    this.#stream = stream;
    const tell = () => {
      const text = line?.() ?? '';
      if (text !== '') this.write(text);
    };
    this.#timer = line === undefined ? null : setInterval(tell, PLAIN_LINE_EVERY_MS).unref();
  }

  write(line: string): void {
    this.#stream.write(`${line}\n`);
  }

  end(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }
}

const BYTES_EVENT_EVERY_MS = 200;

/**
 * One JSON object per line. At most five events a second about a file's bytes, and always the last
 * one.
 */
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
    this.emit(toJson(event) as JsonObject);
  }

  write(line: string): void {
    this.emit({ type: 'message', text: line });
  }

  emit(event: JsonObject): void {
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
  readonly #lines: (screen: Screen) => string[];
  readonly #timer: NodeJS.Timeout;
  #ended = false;

  static async open(stream: ProgressStream, lines: (screen: Screen) => string[]): Promise<BarView> {
    // Only a terminal needs it: a call in a script does not wait for it to load.
    const { createLogUpdate } = await import('log-update');
    const redraw = createLogUpdate(sizedStream(stream) as unknown as NodeJS.WritableStream);
    const view = new BarView(stream, redraw, lines);
    view.#draw();
    return view;
  }

  private constructor(stream: ProgressStream, redraw: Redraw, lines: (screen: Screen) => string[]) {
    this.#stream = stream;
    this.#redraw = redraw;
    this.#lines = lines;
    this.#timer = setInterval(() => this.#draw(), REDRAW_EVERY_MS).unref();
  }

  event(event: ProgressEvent): void {
    if (event.type !== 'bytes') this.#draw();
  }

  write(line: string): void {
    this.aside(() => this.#stream.write(`${line}\n`));
  }

  aside(print: () => void): void {
    this.#redraw.clear();
    print();
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

// A pseudo terminal without a size reports 0.
function screenOf(stream: ProgressStream): Screen {
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
