/** Saves while training goes on: the caller waits for the copy, and the rest is done beside him. */

import { toVersion } from '@holdfast/core';
import {
  abortSignal,
  aClock,
  aLogger,
  CheckpointError,
  type CheckpointManager,
  type Clock,
  type CommitMeta,
  type CommitWaitOptions,
  callback,
  checkOptions,
  having,
  type Logger,
  oneOf,
  optional,
  plainObject,
  type Rules,
  type SaveOptions,
  type SaveResult,
  type Staging,
  type StaleOptions,
  safeLogger,
  systemClock,
  TIMER_MS_MAX,
  throwIfAborted,
  type WriterPosition,
  wholeNumber,
} from '@holdfast/core/contract';
import { processWarnings } from '../process-warnings.ts';
import { MemoryStaging } from './memory-staging.ts';
import { type FlightOptions, type Outcome, SaveFlight, type SaveHooks } from './save-flight.ts';
import type { SaveInFlight, Saver, SaveStart } from './saver.ts';
import { copyStreams, type OpenStream } from './streams-in-one.ts';

const MINUTE_MS = 60_000;

/** Longer than a request goes unanswered and is repeated (`stallTimeoutMs` of the manager, and its delays), so that one lost answer is no stall. */
const STALL_TIMEOUT_MS_DEFAULT = 2 * MINUTE_MS;

const LONE_WRITER: WriterPosition = { index: 0, count: 1 };

export interface AsyncSaverOptions {
  /** Of this saver alone. Default: memory, 1 GiB. */
  staging?: Staging | undefined;
  /** A call while a save is in flight: it waits for its end and then copies, or leaves its save out. Default `wait`. */
  whileSaving?: 'wait' | 'skip' | undefined;
  /** A save that is not committed so long after its call is warned of, once. Default: none is. */
  sloMs?: number | undefined;
  /**
   * So long without progress (the copy, bytes, a writer's delivery) is a stall; not while the manager's throttle is paused. Copying and waiting
   * for one other writer have to be done within it. Default two minutes.
   */
  stallTimeoutMs?: number | undefined;
  /** `warn`: after each `stallTimeoutMs` of silence. `fail`: the save is stopped, with `TimedOut`. Default `warn`. */
  onStall?: 'warn' | 'fail' | undefined;
  /** Default: warnings become those of the process. */
  logger?: Logger | undefined;
  clock?: Clock | undefined;
}

const OPTIONS: Rules<AsyncSaverOptions> = {
  staging: optional(having('stage')),
  whileSaving: optional(oneOf('wait', 'skip')),
  sloMs: optional(wholeNumber(1, TIMER_MS_MAX)),
  stallTimeoutMs: optional(wholeNumber(1, TIMER_MS_MAX)),
  onStall: optional(oneOf('warn', 'fail')),
  logger: optional(aLogger),
  clock: optional(aClock),
};

type CompleteOptions = Pick<FlightOptions, 'clock' | 'logger' | 'sloMs' | 'stallTimeoutMs' | 'onStall'> & {
  readonly staging: Staging;
  readonly whileSaving: 'wait' | 'skip';
};

/** As for `save` of the manager. `onProgress` is called of the whole save, `signal` stops all of it. */
export type AsyncSaveOptions = Omit<SaveOptions, 'staging' | 'noWait'>;

/** Without a way to pause: `write` has written everything before the manager hears of it. */
export type StreamsSaveOptions = CommitMeta &
  StaleOptions &
  CommitWaitOptions &
  Pick<SaveOptions, 'version' | 'writer' | 'dedupe'>;

export interface SaverReport {
  /** Copied. Each of them is committed, failed or in flight. */
  readonly started: number;
  readonly committed: number;
  readonly skipped: number;
  /** Of those started. */
  readonly failed: number;
  /** Saves that took longer than `sloMs`, whatever became of them. */
  readonly late: number;
  /** From the call of the last save that was started to its end; `null`: none has ended. */
  readonly lastDurationMs: number | null;
}

/**
 * One save is in flight at a time, and calls are served in their order. What fails before the copy is made rejects its own call; what fails
 * later is told once, by the next `saveAsync`, `saveStreams`, `settled` or `close`, whichever is first, and a save that tells it saves nothing.
 * The manager stays the caller's.
 */
export class AsyncSaver implements Saver, AsyncDisposable {
  readonly manager: CheckpointManager;
  readonly #options: CompleteOptions;
  readonly #counts = { started: 0, committed: 0, skipped: 0, failed: 0, late: 0 };
  /** Ends when all calls before have had their turn. */
  #turns: Promise<unknown> = Promise.resolve();
  /** Saves that were asked for and are not over. */
  #saveCount = 0;
  /** The last one, over or not. */
  #flight: SaveFlight | null = null;
  /** When that is over, and counted. Never rejects. */
  #ended: Promise<void> = Promise.resolve();
  /** What the last save came to, and nobody has heard. */
  #untold: Outcome | null = null;
  #newest: SaveResult | null = null;
  #lastDurationMs: number | null = null;
  #isClosed = false;

  constructor(manager: CheckpointManager, options: AsyncSaverOptions = {}) {
    having('save')('manager', manager);
    checkOptions(options, OPTIONS);
    this.manager = manager;
    this.#options = {
      staging: options.staging ?? new MemoryStaging(),
      whileSaving: options.whileSaving ?? 'wait',
      onStall: options.onStall ?? 'warn',
      sloMs: options.sloMs ?? null,
      stallTimeoutMs: options.stallTimeoutMs ?? STALL_TIMEOUT_MS_DEFAULT,
      logger: safeLogger(options.logger ?? processWarnings),
      clock: options.clock ?? systemClock,
    };
  }

  get inFlight(): SaveInFlight | null {
    return this.#flight?.inFlight ?? null;
  }

  get newest(): SaveResult | null {
    return this.#newest;
  }

  get report(): SaverReport {
    return { ...this.#counts, lastDurationMs: this.#lastDurationMs };
  }

  /** Resolves when everything is copied: from then on the sources may change. Nothing is durable before the commit. */
  saveAsync(options: AsyncSaveOptions): Promise<SaveStart> {
    const { staging } = this.#options;
    return this.#begin(options, (hooks) => this.manager.save({ ...options, staging, ...hooks }));
  }

  /**
   * See `Saver`. A chunk may be reused once its write has resolved. A stream that is left open is ended, unless somebody still holds a writer
   * of it (`InvalidArgument`, as for a key that is opened twice).
   */
  async saveStreams(
    write: (open: OpenStream) => Promise<void>,
    options: StreamsSaveOptions = {},
  ): Promise<SaveStart> {
    callback('write', write);
    return this.#begin(options, async (hooks) => {
      const { keys, staging, release } = await copyStreams(write, this.#options.staging, hooks.signal);
      try {
        const files = Object.fromEntries(keys.map((key) => [key, COPIED_ALREADY]));
        return await this.manager.save({ ...options, files, staging, ...hooks });
      } finally {
        await release();
      }
    });
  }

  settled(): Promise<SaveResult | null> {
    return this.#inTurn(async () => {
      this.#throwUntold();
      const told = this.#untold;
      this.#untold = null;
      return told !== null && 'result' in told ? told.result : null;
    });
  }

  /** Waits for the saves that were asked for; rejects with what nobody has heard of. Later saves are `InvalidArgument`. Safe to repeat. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.#inTurn(async () => this.#throwUntold());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #begin(
    options: StreamsSaveOptions,
    save: (hooks: SaveHooks) => Promise<SaveResult>,
  ): Promise<SaveStart> {
    plainObject('the options of a save', options);
    optional(abortSignal)('signal', options.signal);
    const calledMs = this.#options.clock.monotonicMs();
    if (this.#isClosed) {
      throw new CheckpointError('InvalidArgument', 'the saver is closed; it saves nothing any more');
    }
    if (this.#options.whileSaving === 'skip' && this.#saveCount > 0) {
      this.#counts.skipped += 1;
      return 'skipped';
    }
    this.#saveCount += 1;
    let isStarted = false;
    try {
      await this.#inTurn(async () => {
        throwIfAborted(options.signal); // and whoever calls next hears what there is to tell
        this.#throwUntold();
        await this.#start(calledMs, options, save);
        isStarted = true;
      });
    } finally {
      if (!isStarted) this.#saveCount -= 1;
    }
    return 'started';
  }

  /** Calls take their turns in order, each when nothing is in flight. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turns.then(async () => {
      await this.#ended;
      return work();
    });
    this.#turns = turn.catch(() => undefined);
    return turn;
  }

  #throwUntold(): void {
    const untold = this.#untold;
    if (untold === null || 'result' in untold) return;
    this.#untold = null;
    throw untold.error;
  }

  async #start(
    calledMs: number,
    { version, writer, signal, onProgress }: StreamsSaveOptions,
    save: (hooks: SaveHooks) => Promise<SaveResult>,
  ): Promise<void> {
    const flight = new SaveFlight(
      {
        ...this.#options,
        calledMs,
        version: version === undefined ? null : toVersion(version),
        writer: writer ?? this.#flight?.writer ?? LONE_WRITER,
        throttle: this.manager.throttle,
        signal,
        onProgress,
        onLate: () => {
          this.#counts.late += 1;
        },
      },
      save,
    );
    this.#flight = flight;
    this.#ended = flight.over.then((outcome) => this.#end(flight, outcome));
    await flight.staged;
    this.#counts.started += 1;
  }

  #end(flight: SaveFlight, outcome: Outcome): void {
    // What fails before the copy is made is told by its own call.
    if ('error' in outcome && !flight.isStaged) return;
    this.#saveCount -= 1;
    this.#untold = outcome;
    this.#lastDurationMs = flight.durationMs;
    if ('error' in outcome) {
      this.#counts.failed += 1;
    } else {
      this.#counts.committed += 1;
      this.#newest = outcome.result;
    }
  }
}

/** Stands for a file whose bytes the staging has. */
const COPIED_ALREADY: AsyncIterable<Uint8Array> = {
  [Symbol.asyncIterator]() {
    throw new CheckpointError('Unexpected', 'a stream that was copied before the save is read again');
  },
};
