import { CheckpointError, having, isCheckpointError, type Logger } from '@holdfast/core/contract';
import type { CheckpointManagerOpener, TrainingCheckpointManager } from './checkpoints.ts';
import { mayPass, messageOf, RecoverableError } from './errors.ts';

const MANAGER = having('create', 'get', 'latest', 'list');

/**
 * The manager with which a train loop loads and saves as rank 0: the one that was given, or the
 * newest that the opener has opened.
 *
 * A run admits an attempt once: a manager that another rank 0 has replaced can never save again.
 * When its worker becomes rank 0 again, the rendezvous vouches for it, and the opener opens a new
 * manager, which takes the run over.
 */
export class LoopManager {
  readonly #source: TrainingCheckpointManager | CheckpointManagerOpener;
  readonly #logger: Logger;
  /** `null`: the opener's next manager is not open yet. */
  #current: TrainingCheckpointManager | null;
  #isOver = false;
  #closed: Promise<void> = Promise.resolve();

  constructor(source: TrainingCheckpointManager | CheckpointManagerOpener, logger: Logger) {
    this.#source = source;
    this.#logger = logger;
    this.#current = typeof source === 'function' ? null : source;
  }

  /** False: the caller's own manager, the same in every world. */
  get isOpenedByLoop(): boolean {
    return typeof this.#source === 'function';
  }

  get current(): TrainingCheckpointManager {
    if (this.#current !== null) return this.#current;
    throw new CheckpointError('Unexpected', 'the manager of this world is not open');
  }

  /**
   * Call it when a world has begun. Rank 0 gets a manager that has joined the run. If it was rank 0
   * in the world before, it keeps its manager. `RecoverableError`: the opener failed temporarily.
   */
  async enter(rank: number): Promise<void> {
    if (rank !== 0) return this.leave();
    const source = this.#source;
    if (typeof source !== 'function' || this.#current !== null) return;
    const manager = await open(source);
    this.#current = manager;
    // A preempted loop does not wait for the opener.
    if (this.#isOver) this.leave();
    else await this.#join(manager);
  }

  /** This worker may no longer be rank 0. Closes the manager that the opener opened. */
  leave(): void {
    if (!this.isOpenedByLoop || this.#current === null) return;
    const former = this.#current;
    this.#current = null;
    // The next world does not wait: retention of the last commit may still be running.
    this.#closed = Promise.all([this.#closed, this.#close(former)]).then(() => undefined);
  }

  /** Closes what the opener opened. Never rejects. */
  async close(): Promise<void> {
    this.#isOver = true;
    this.leave();
    await this.#closed;
  }

  /**
   * Without this, a process that is frozen before its first save would take the run over from the
   * next rank 0 when it resumes. If the store is away, the first save joins instead.
   */
  async #join(manager: TrainingCheckpointManager): Promise<void> {
    try {
      await manager.join?.();
    } catch (error) {
      if (!mayPass(error)) throw error;
      this.#logger.log('warn', `the run could not be joined; the next save tries again: ${error.message}`, {
        error,
      });
    }
  }

  async #close(manager: TrainingCheckpointManager): Promise<void> {
    try {
      await manager.close?.();
    } catch (error) {
      this.#logger.log('warn', `a checkpoint manager could not be closed: ${messageOf(error)}`, { error });
    }
  }
}

async function open(opener: CheckpointManagerOpener): Promise<TrainingCheckpointManager> {
  try {
    const manager = await opener();
    MANAGER('what the function given to setCheckpointManager opened', manager);
    return manager;
  } catch (error) {
    if (!mayPass(error)) throw error;
    throw new RecoverableError(`no checkpoint manager could be opened: ${error.message}`, { cause: error });
  }
}

/** `Fenced` with what to do about it, if a manager that cannot be replaced was overtaken. */
export function withAdvice(error: unknown, hasSaver: boolean): unknown {
  if (!isCheckpointError(error, 'Fenced')) return error;
  const advice = hasSaver
    ? 'start this worker again'
    : 'give setCheckpointManager a function that opens a manager';
  return new CheckpointError(
    'Fenced',
    `${error.message}; if another worker of this job was rank 0 in between: ${advice}`,
    { cause: error, context: error.context, status: error.status },
  );
}
