/** One save from start to end: its progress, its warnings and its outcome. */

import {
  CheckpointError,
  type Clock,
  isCheckpointError,
  type Logger,
  type ProgressEvent,
  type SaveResult,
  type Throttle,
  type WriterPosition,
} from '@holdfast/core/contract';
import { placeText, secondsText, sharesText, versionText } from './in-flight-text.ts';
import { SaveProgress } from './save-progress.ts';
import { watchSave } from './save-watch.ts';
import type { SaveInFlight } from './saver.ts';

export type Outcome = { readonly result: SaveResult } | { readonly error: unknown };

export interface SaveHooks {
  readonly signal: AbortSignal;
  readonly onProgress: (event: ProgressEvent) => void;
}

export interface FlightOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly throttle: Throttle;
  /** On the monotonic clock. */
  readonly calledMs: number;
  /** `null`: the next version. */
  readonly version: bigint | null;
  /** As far as it is known before the save. */
  readonly writer: WriterPosition;
  readonly sloMs: number | null;
  readonly stallTimeoutMs: number;
  readonly onStall: 'warn' | 'fail';
  /** The caller's signal, passed on to the save. */
  readonly signal: AbortSignal | undefined;
  readonly onProgress: ((event: ProgressEvent) => void) | undefined;
  /** Called once, when the save has taken longer than `sloMs`. */
  onLate(): void;
}

export class SaveFlight {
  /** Resolves when everything is copied; rejects if the save fails before that. */
  readonly staged: Promise<void>;
  /** Never rejects. */
  readonly over: Promise<Outcome>;
  readonly #options: FlightOptions;
  readonly #progress: SaveProgress;
  readonly #stop = new AbortController();
  #isLate = false;
  #isOver = false;
  #durationMs = 0;

  constructor(options: FlightOptions, save: (hooks: SaveHooks) => Promise<SaveResult>) {
    this.#options = options;
    const { clock, calledMs, version, writer } = options;
    this.#progress = new SaveProgress({ version, writer, calledMs, begunMs: clock.monotonicMs() });
    const copied = Promise.withResolvers<void>();
    this.over = this.#run(save, copied.resolve);
    this.staged = Promise.race([
      copied.promise,
      this.over.then((outcome) => {
        if ('error' in outcome) throw outcome.error;
      }),
    ]);
  }

  get writer(): WriterPosition {
    return this.#progress.writer;
  }

  get isStaged(): boolean {
    return this.#progress.isStaged;
  }

  /** From the call to the end; 0 before the end. */
  get durationMs(): number {
    return this.#durationMs;
  }

  get inFlight(): SaveInFlight | null {
    if (this.#isOver || !this.isStaged) return null;
    return this.#progress.inFlight(this.#options.clock.monotonicMs());
  }

  async #run(save: (hooks: SaveHooks) => Promise<SaveResult>, onStaged: () => void): Promise<Outcome> {
    const watching = new AbortController();
    this.#watch(watching.signal);
    const outcome = await this.#outcome(save, onStaged);
    watching.abort();
    this.#isOver = true;
    const { calledMs, clock, sloMs } = this.#options;
    this.#durationMs = clock.monotonicMs() - calledMs;
    // The save may have ended before the watch got a turn.
    if (sloMs !== null && this.#durationMs >= sloMs && !this.#isLate) this.#onLate();
    return outcome;
  }

  async #outcome(save: (hooks: SaveHooks) => Promise<SaveResult>, onStaged: () => void): Promise<Outcome> {
    const { clock, signal, onProgress } = this.#options;
    const signals = signal === undefined ? [this.#stop.signal] : [signal, this.#stop.signal];
    try {
      const result = await save({
        signal: AbortSignal.any(signals),
        onProgress: (event) => {
          this.#progress.hear(event, clock.monotonicMs());
          if (event.type === 'staged') onStaged();
          onProgress?.(event);
        },
      });
      return { result };
    } catch (error) {
      const isStopped = this.#stop.signal.aborted && isCheckpointError(error, 'Aborted');
      return { error: isStopped ? this.#stop.signal.reason : error };
    }
  }

  #watch(signal: AbortSignal): void {
    const { clock, calledMs, sloMs, stallTimeoutMs, throttle } = this.#options;
    void watchSave(
      {
        clock,
        stallTimeoutMs,
        dueMs: sloMs === null ? null : calledMs + sloMs,
        heardMs: () => this.#progress.heardMs,
        isPaused: () => throttle.isPaused,
        onLate: () => this.#onLate(),
        onStall: () => this.#onStall(),
      },
      signal,
    );
  }

  #onLate(): void {
    this.#isLate = true;
    this.#options.onLate();
    const save = this.#progress.inFlight(this.#options.clock.monotonicMs());
    const after = `${secondsText(save.elapsedMs)} after the call`;
    const state = this.#isOver ? 'it has only now ended' : `it is not committed`;
    const message = `${versionText(save.version)} is late: ${after} ${state}: ${this.#placeText(save)}`;
    this.#options.logger.log('warn', message);
  }

  #onStall(): void {
    const { clock, logger, onStall } = this.#options;
    const nowMs = clock.monotonicMs();
    const save = this.#progress.inFlight(nowMs);
    const silence = `no progress of ${versionText(save.version)} for ${secondsText(save.silentMs)}`;
    const message = `${silence}: ${this.#placeText(save)}${this.#fileText()}${this.#retryText(nowMs)}`;
    if (onStall === 'warn') {
      logger.log('warn', message);
    } else if (!this.#stop.signal.aborted) {
      const context = { writer: save.writer.index, ...(save.version !== null && { version: save.version }) };
      this.#stop.abort(new CheckpointError('TimedOut', `the save was stopped: ${message}`, { context }));
    }
  }

  #placeText(save: SaveInFlight): string {
    return placeText(save, this.isStaged);
  }

  #fileText(): string {
    const file = this.#progress.slowest;
    return file === null ? '' : `; ${file.name} has ${sharesText(file.doneBytes, file.totalBytes)}`;
  }

  #retryText(nowMs: number): string {
    const retry = this.#progress.lastRetry;
    return retry === null ? '' : `; last retry ${secondsText(nowMs - retry.atMs)} ago: ${retry.detail}`;
  }
}
