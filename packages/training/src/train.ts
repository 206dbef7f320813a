/**
 * torchelastic's train loop. Order of a world: snapshot, rendezvous, load (rank 0, only while nobody has a state yet), sync; then step by
 * step: snapshot, step, save, a look at who came and went. docs/training.md names what is different here, and why.
 */

import { emitWarning } from 'node:process';
import { CheckpointError, isCheckpointError, type Logger } from '@holdfast/core/contract';
import type { TrainingCheckpointManager } from './checkpoints.ts';
import type { Coordinator, World } from './coordinator.ts';
import { NonRetryableException, RecoverableError, StopException, StopIteration } from './errors.ts';
import { loadNewestCheckpoint } from './load-checkpoint.ts';
import { getCheckpointManager } from './registry.ts';
import { saveCheckpoint } from './save-checkpoint.ts';
import type { State } from './state.ts';

/** torchelastic's MAX_FAILURES. */
const FAILURES_MAX_DEFAULT = 100;

/** What is worth a warning is Node's warning, on stderr unless the program decides otherwise. */
const warnings: Logger = {
  log: (level, message) => {
    if (level === 'warn') emitWarning(message, 'HoldfastTraining');
  },
};

/**
 * One unit of work on the state. What it returns goes to `coordinator.monitorProgress`. `StopIteration`: there is no data left, and nothing
 * was done. `RecoverableError`: it may go well the next time; what it did to the state is undone.
 */
export type TrainStep<S extends State> = (state: S) => unknown;

export interface TrainOptions {
  /** Recoverable failures after which this worker gives up; at least 1. Default 100. */
  failuresMax?: number | undefined;
  /** Default: warnings become those of the process. */
  logger?: Logger | undefined;
}

/**
 * Trains until there is no data left, or the coordinator ends it; resolves to the same state. Checkpoints are those of `setCheckpointManager`,
 * read once, at the call.
 *
 * Rejects with whatever is no `RecoverableError`, after `coordinator.onError`; with `NonRetryableException` after `failuresMax` recoverable
 * failures. A save that fails for a while (`RecoverableError`, or a `CheckpointError` that is not permanent) costs a checkpoint and no step.
 */
export async function train<S extends State>(
  coordinator: Coordinator,
  trainStep: TrainStep<S>,
  state: S,
  options: TrainOptions = {},
): Promise<S> {
  const failuresMax = options.failuresMax ?? FAILURES_MAX_DEFAULT;
  if (!Number.isSafeInteger(failuresMax) || failuresMax < 1) {
    throw new CheckpointError('InvalidArgument', `failuresMax is ${failuresMax}, not a whole number above 0`);
  }
  const manager = getCheckpointManager();
  const logger = options.logger ?? warnings;
  await new TrainLoop({ coordinator, trainStep, state, manager, failuresMax, logger }).run();
  return state;
}

interface LoopParts<S extends State> {
  readonly coordinator: Coordinator;
  readonly trainStep: TrainStep<S>;
  readonly state: S;
  readonly manager: TrainingCheckpointManager | null;
  readonly failuresMax: number;
  readonly logger: Logger;
}

class TrainLoop<S extends State> {
  readonly #parts: LoopParts<S>;
  #failureCount = 0;
  /** This worker has been alike with others: whoever is new gets the state from one of these. */
  #hasState = false;
  #isOver = false;

  constructor(parts: LoopParts<S>) {
    this.#parts = parts;
  }

  async run(): Promise<void> {
    while (this.#goesOn()) {
      this.#assertFailuresLeft();
      const world = await this.#recovering((snapshot) => this.#enterWorld(snapshot));
      if (world !== null) await this.#stepThrough(world);
    }
  }

  #goesOn(): boolean {
    return !this.#isOver && !this.#parts.coordinator.shouldStopTraining();
  }

  #assertFailuresLeft(): void {
    if (this.#failureCount < this.#parts.failuresMax) return;
    const error = new NonRetryableException(
      `Exceeded max number of recoverable failures: ${this.#failureCount}`,
    );
    this.#parts.coordinator.onError(error);
    throw error;
  }

  async #stepThrough(world: World): Promise<void> {
    let isSameWorld = true;
    while (isSameWorld && this.#goesOn()) {
      isSameWorld = (await this.#recovering(() => this.#step(world))) ?? false;
    }
  }

  /** What `body` resolves to; `null`: nothing came of it, and the state is what it was before, where there is a snapshot. */
  async #recovering<T>(body: (snapshot: unknown) => Promise<T>): Promise<T | null> {
    const { coordinator, state, logger } = this.#parts;
    const snapshot = state.snapshot();
    try {
      return await body(snapshot);
    } catch (error) {
      if (error instanceof StopException) {
        this.#isOver = true;
        return null;
      }
      coordinator.onError(error);
      if (!(error instanceof RecoverableError)) throw error;
      this.#failureCount += 1;
      logger.log('warn', `recoverable failure ${this.#failureCount}: ${error.message}`, { error });
      this.#reset(snapshot);
      return null;
    }
  }

  #reset(snapshot: unknown): void {
    if (snapshot !== null) this.#parts.state.apply(snapshot);
  }

  async #enterWorld(snapshot: unknown): Promise<World> {
    const { coordinator, state, manager, logger } = this.#parts;
    const world = await coordinator.rendezvous();
    const haveState = await world.allGather(Uint8Array.of(this.#hasState ? 1 : 0));
    const isFirst = haveState.every(([flag]) => flag === 0);
    if (manager !== null && world.rank === 0 && isFirst) {
      await loadNewestCheckpoint(manager, state, { logger, reset: () => this.#reset(snapshot) });
    }
    await state.sync(world.size, world.rank);
    // Were one to fail here alone, it would go back to where it was, and the others would keep it from loading again.
    await world.barrier();
    this.#hasState = true;
    return world;
  }

  /** False: on to the next rendezvous. */
  async #step(world: World): Promise<boolean> {
    const { coordinator, state } = this.#parts;
    const outcome = await this.#trainOnce();
    if (outcome === null) {
      await coordinator.signalTrainingDone();
      return false;
    }
    coordinator.monitorProgress(state, outcome.stats);
    await this.#save(world);
    if (await coordinator.shouldRendezvous(state)) return false;
    coordinator.reportProgress(state);
    return true;
  }

  /** `null`: there is no data left. */
  async #trainOnce(): Promise<{ readonly stats: unknown } | null> {
    try {
      return { stats: await this.#parts.trainStep(this.#parts.state) };
    } catch (error) {
      if (error instanceof StopIteration) return null;
      throw error;
    }
  }

  /** Rank 0 writes; all meet when it is done, however it went. */
  async #save(world: World): Promise<void> {
    const { coordinator, state, manager, logger } = this.#parts;
    if (manager === null) return;
    if (!coordinator.shouldSaveCheckpoint() && !state.shouldSaveCheckpoint(world.rank)) return;
    const saving = world.rank === 0 ? saveCheckpoint(manager, state, logger) : null;
    const [saved] = await Promise.allSettled([saving]);
    const [met] = await Promise.allSettled([world.barrier()]);
    if (saved.status === 'rejected') this.#judgeFailedSave(saved.reason);
    if (met.status === 'rejected') throw met.reason;
  }

  /** The step is done, on all ranks: to undo it on this one would gain nothing. */
  #judgeFailedSave(error: unknown): void {
    const mayPass =
      error instanceof RecoverableError || (isCheckpointError(error) && error.status !== 'permanent');
    if (!mayPass) throw error;
    this.#parts.coordinator.onError(error);
    this.#parts.logger.log('warn', `a checkpoint could not be saved, training goes on: ${error.message}`, {
      error,
    });
  }
}
