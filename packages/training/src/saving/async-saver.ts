/**
 * Saves while training continues: the caller waits only for the copy, and the rest runs in the
 * background.
 */

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

/**
 * Longer than one unanswered request and its repetition (`stallTimeoutMs` of the manager, and its
 * delays). One lost answer is therefore not a stall.
 */
const STALL_TIMEOUT_MS_DEFAULT = 2 * MINUTE_MS;

const LONE_WRITER: WriterPosition = { index: 0, count: 1 };

export interface AsyncSaverOptions {
  /** Belongs to this saver alone. Default: memory, 1 GiB. */
  staging?: Staging | undefined;
  /**
   * What a call does while a save is in flight: `wait` waits for its end and then copies, `skip`
   * skips the new save. Default `wait`.
   */
  whileSaving?: 'wait' | 'skip' | undefined;
  /**
   * Warn once about a save that is not committed this long after its call, in milliseconds.
   * Default: no warning.
   */
  sloMs?: number | undefined;
  /**
   * This long without progress (the copy, bytes, a writer's delivery) is a stall, in milliseconds.
   * Time in which the manager's throttle is paused does not count. The copy must take less than
   * this, and so must the wait for any one other writer. Default two minutes.
   */
  stallTimeoutMs?: number | undefined;
  /**
   * `warn`: warns after each `stallTimeoutMs` without progress. `fail`: aborts the save with
   * `TimedOut`. Default `warn`.
   */
  onStall?: 'warn' | 'fail' | undefined;
  /** Default: warnings become Node's process warnings. */
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

/** Options of the manager's `save` that the saver sets itself. */
const OF_THE_SAVER = ['noWait', 'staging'] as const;
const OF_THE_STREAMS = ['dir', 'files', 'buffers', 'consistency', 'stateVersion', 'pause', 'pauseTimeoutMs'];

type CompleteOptions = Pick<FlightOptions, 'clock' | 'logger' | 'sloMs' | 'stallTimeoutMs' | 'onStall'> & {
  readonly staging: Staging;
  readonly whileSaving: 'wait' | 'skip';
};

/**
 * Options as for `save` of the manager. `onProgress` covers the whole save, and `signal` aborts all
 * of it.
 */
export type AsyncSaveOptions = Omit<SaveOptions, 'staging' | 'noWait'>;

/**
 * Has no way to pause the writers: `write` has written everything before the manager's save starts.
 */
export type StreamsSaveOptions = CommitMeta &
  StaleOptions &
  CommitWaitOptions &
  Pick<SaveOptions, 'version' | 'writer' | 'dedupe'>;

export interface SaverReport {
  /** Saves that were copied. Each is committed, failed or in flight. */
  readonly started: number;
  readonly committed: number;
  readonly skipped: number;
  /** Failed saves among those started. */
  readonly failed: number;
  /** Saves that took longer than `sloMs`, whether they succeeded or failed. */
  readonly late: number;
  /** Time from call to end of the last started save that has ended; `null` if none has. */
  readonly lastDurationMs: number | null;
}

/**
 * One save is in flight at a time, and calls are served in order. A failure before the copy is made
 * rejects its own call. A later failure is reported once, by the next `saveAsync`, `saveStreams`,
 * `settled` or `close`. A save that reports an earlier failure saves nothing.
 *
 * The caller keeps the manager and closes it.
 */
export class AsyncSaver implements Saver, AsyncDisposable {
  readonly manager: CheckpointManager;
  readonly #options: CompleteOptions;
  readonly #counts = { started: 0, committed: 0, skipped: 0, failed: 0, late: 0 };
  /** Settles when all earlier calls have had their turn. */
  #turns: Promise<unknown> = Promise.resolve();
  /** Saves that were requested and have not ended. */
  #saveCount = 0;
  /** The last save, ended or not. */
  #flight: SaveFlight | null = null;
  /** Resolves when the last save has ended and is counted. Never rejects. */
  #ended: Promise<void> = Promise.resolve();
  /** Outcome of the last save if it was not yet reported. */
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

  /**
   * Resolves when everything is copied; the sources may then change. Nothing is durable before the
   * commit.
   */
  async saveAsync(options: AsyncSaveOptions): Promise<SaveStart> {
    const { staging } = this.#options;
    assertWithout(options, OF_THE_SAVER);
    return this.#begin(options, (hooks) => this.manager.save({ ...options, staging, ...hooks }));
  }

  /**
   * See `Saver`. A chunk may be reused once its write has resolved. A stream that is left open is
   * closed. If it is still locked by a writer, the call rejects with `InvalidArgument`, as it does
   * for a key that is opened twice.
   */
  async saveStreams(
    write: (open: OpenStream) => Promise<void>,
    options: StreamsSaveOptions = {},
  ): Promise<SaveStart> {
    callback('write', write);
    assertWithout(options, [...OF_THE_SAVER, ...OF_THE_STREAMS]);
    return this.#begin(options, async (hooks) => {
      const { keys, staging, release } = await copyStreams(write, this.#options.staging, hooks.signal);
      try {
        const files = Object.fromEntries(keys.map((key) => [key, copiedAlready()]));
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

  /**
   * Waits for all requested saves, and rejects with a failure that was not yet reported. Later
   * saves reject with `InvalidArgument`. Safe to repeat.
   */
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
    optional(abortSignal)('signal', options.signal);
    const calledMs = this.#options.clock.monotonicMs();
    if (this.#isClosed) {
      throw new CheckpointError('InvalidArgument', 'the saver is closed and saves nothing more');
    }
    if (this.#options.whileSaving === 'skip' && this.#saveCount > 0) {
      this.#counts.skipped += 1;
      return 'skipped';
    }
    this.#saveCount += 1;
    let isStarted = false;
    try {
      await this.#inTurn(async () => {
        throwIfAborted(options.signal); // leaves an unreported failure to the next call
        this.#throwUntold();
        await this.#start(calledMs, options, save);
        isStarted = true;
      });
    } finally {
      if (!isStarted) this.#saveCount -= 1;
    }
    return 'started';
  }

  /** Runs calls in order, each when no save is in flight. */
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
    // A failure before the copy is made rejects its own call.
    if ('error' in outcome && !flight.isStaged) return;
    this.#saveCount -= 1;
    this.#untold = outcome;
    this.#lastDurationMs = flight.durationMs;
    if ('error' in outcome) {
      this.#counts.failed += 1;
    } else {
      this.#counts.committed += 1;
      // A version that was committed before can be older than the newest one.
      const { result } = outcome;
      if (this.#newest === null || result.version >= this.#newest.version) this.#newest = result;
    }
  }
}

function assertWithout(options: object, refused: readonly string[]): void {
  plainObject('the options of a save', options);
  const found = refused.find((option) => (options as Record<string, unknown>)[option] !== undefined);
  if (found === undefined) return;
  const message = `the options of a save have "${found}", which the saver does not take; it takes the other options of save()`;
  throw new CheckpointError('InvalidArgument', message);
}

/** Placeholder for a file whose bytes are already in the staging. Each file has its own stream. */
function copiedAlready(): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      throw new CheckpointError(
        'Unexpected',
        'a stream that was copied before the save cannot be read again',
      );
    },
  };
}
