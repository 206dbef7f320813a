/**
 * The train loop of torchelastic. A world begins with: snapshot, rendezvous, load (only on rank 0,
 * and only if no worker has a state yet), sync. Each step is: snapshot, step, save, check for
 * workers that came or left.
 *
 * docs/training.md lists the differences from torchelastic and the reasons.
 */

import {
  aLogger,
  CheckpointError,
  callback,
  checkOptions,
  having,
  type Logger,
  optional,
  type Rules,
  wholeNumber,
} from '@holdfast/core/contract';
import type { CheckpointManagerOpener, TrainingCheckpointManager } from './checkpoints.ts';
import type { Coordinator, World } from './coordinator.ts';
import {
  mayPass,
  messageOf,
  NonRetryableException,
  RecoverableError,
  StopException,
  StopIteration,
} from './errors.ts';
import { loadNewestCheckpoint } from './load-checkpoint.ts';
import { LoopManager } from './loop-manager.ts';
import { LoopSaves } from './loop-saves.ts';
import { processWarnings } from './process-warnings.ts';
import { getCheckpointManager } from './registry.ts';
import type { Preemption } from './saving/preemption.ts';
import { unlessPreempted, untilDeadline } from './saving/preemption-waits.ts';
import type { Saver } from './saving/saver.ts';
import type { State } from './state.ts';

/** torchelastic's MAX_FAILURES. */
const FAILURES_MAX_DEFAULT = 100;

/**
 * One unit of work on the state. Its result is passed to `coordinator.monitorProgress`.
 * `StopIteration`: no data is left, and the state was not changed. `RecoverableError`: a retry may
 * succeed; its changes to the state are undone.
 */
export type TrainStep<S extends State> = (state: S) => unknown;

export interface TrainOptions {
  /** Number of recoverable failures after which this worker gives up; at least 1. Default 100. */
  failuresMax?: number | undefined;
  /** Default: warnings become Node's process warnings. */
  logger?: Logger | undefined;
  /**
   * Rank 0 saves through it, so that a step waits only for the copy. Its manager must be the one
   * given to `setCheckpointManager`. When the loop ends, it waits for saves in flight.
   */
  saver?: Saver | undefined;
  /**
   * After its notice the loop ends with the current step. Rank 0 then saves its state through
   * `saver`, if there is time. `train` resolves at the deadline at the latest; if a step is still
   * running then, the state is that of an unfinished step.
   */
  preemption?: Preemption | undefined;
}

const OPTIONS: Rules<TrainOptions> = {
  failuresMax: optional(wholeNumber(1)),
  logger: optional(aLogger),
  saver: optional(having('saveStreams', 'settled')),
  preemption: optional(having('hold', 'request')),
};

/**
 * Trains until no data is left, or the coordinator or a preemption ends training. Resolves to the
 * same state object. Uses the manager of `setCheckpointManager`, read once, at the call. A manager
 * that the loop has opened is closed when `train` settles.
 *
 * Rejects with:
 * - any error except `RecoverableError` and `StopException`, after `coordinator.onError`
 * - `NonRetryableException` after `failuresMax` recoverable failures
 * - `InvalidArgument` for options that do not fit together, before anything starts
 *
 * A transient failure of a save (`RecoverableError`, or a `CheckpointError` that is not permanent)
 * loses a checkpoint but no step.
 */
export async function train<S extends State>(
  coordinator: Coordinator,
  trainStep: TrainStep<S>,
  state: S,
  options: TrainOptions = {},
): Promise<S> {
  having('rendezvous', 'shouldStopTraining')('coordinator', coordinator);
  callback('trainStep', trainStep);
  having('save', 'load')('state', state);
  checkOptions(options, OPTIONS);
  const { failuresMax = FAILURES_MAX_DEFAULT, logger = processWarnings, saver = null } = options;
  const source = getCheckpointManager();
  const preemption = options.preemption ?? null;
  checkSavers(source, saver, preemption);
  const manager = source && new LoopManager(source, logger);
  const parts = { coordinator, trainStep, state, manager, saver, preemption, failuresMax, logger };
  await new TrainLoop(parts).run();
  return state;
}

function checkSavers(
  manager: TrainingCheckpointManager | CheckpointManagerOpener | null,
  saver: Saver | null,
  preemption: Preemption | null,
): void {
  if (saver !== null && typeof manager === 'function') {
    throw new CheckpointError(
      'InvalidArgument',
      'a saver keeps its manager: give setCheckpointManager this manager, not a function that opens one',
    );
  }
  if (saver !== null && saver.manager !== manager) {
    throw new CheckpointError(
      'InvalidArgument',
      'the saver has another manager than setCheckpointManager was given: training would not load what the saver saves',
    );
  }
  if (saver !== null && preemption !== null && preemption.saver !== saver) {
    throw new CheckpointError(
      'InvalidArgument',
      'the preemption has another saver than the train loop: it would not wait for the saves of the loop',
    );
  }
}

interface LoopParts<S extends State> {
  readonly coordinator: Coordinator;
  readonly trainStep: TrainStep<S>;
  readonly state: S;
  readonly manager: LoopManager | null;
  readonly saver: Saver | null;
  readonly preemption: Preemption | null;
  readonly failuresMax: number;
  readonly logger: Logger;
}

class TrainLoop<S extends State> {
  readonly #parts: LoopParts<S>;
  #failureCount = 0;
  /** This worker has been in sync with others; new workers get the state from such a worker. */
  #hasState = false;
  #isOver = false;
  readonly #saves: LoopSaves | null;
  /** This worker is rank 0 and saves through a saver. */
  #isSavingAside = false;
  #isInStep = false;
  #failure: { readonly error: unknown } | null = null;

  constructor(parts: LoopParts<S>) {
    this.#parts = parts;
    const { manager, saver, state, logger, coordinator } = parts;
    const onError = (error: unknown) => coordinator.onError(error);
    this.#saves = manager && new LoopSaves({ manager, saver, state, logger, onError });
  }

  async run(): Promise<void> {
    const { preemption } = this.#parts;
    const release = preemption?.hold(() => this.#loss());
    await untilDeadline(preemption, async () => {
      try {
        await this.#trainThrough();
      } catch (error) {
        this.#failure = { error };
      }
    });
    this.#isOver = true;
    await untilDeadline(preemption, async () => {
      try {
        await this.#finishSaves();
      } catch (error) {
        release?.(error);
        this.#hearOfUnsaved(error);
      }
      await this.#parts.manager?.close();
    });
    // A loop that failed did not save its last state.
    release?.(this.#isSavingAside && this.#saves?.isBehind ? this.#failure?.error : undefined);
    if (preemption?.isRequested) await preemption.finished;
    if (this.#failure !== null) throw this.#failure.error;
  }

  async #trainThrough(): Promise<void> {
    while (this.#goesOn()) {
      this.#assertFailuresLeft();
      const world = await this.#recovering((snapshot) => this.#enterWorld(snapshot));
      if (world !== null) await this.#stepThrough(world);
    }
  }

  #goesOn(): boolean {
    return !this.#isOver && !this.#isPreempted && !this.#parts.coordinator.shouldStopTraining();
  }

  get #isPreempted(): boolean {
    return this.#parts.preemption?.isRequested === true;
  }

  /** A rank 0 that is preempted saves the state once more. */
  async #finishSaves(): Promise<void> {
    if (this.#saves === null) return;
    const { saver } = this.#parts;
    const isLast = this.#isPreempted && this.#failure === null && this.#isSavingAside;
    await (saver !== null && isLast ? this.#saves.saveLast(saver) : this.#saves.settle());
  }

  /**
   * Reports a save that failed after the last step. For a preempted worker, the report of the
   * preemption has the failure.
   */
  #hearOfUnsaved(error: unknown): void {
    const { coordinator, logger } = this.#parts;
    coordinator.onError(error);
    if (this.#failure === null && !this.#isPreempted && !mayPass(error)) this.#failure = { error };
    else logger.log('warn', `a checkpoint could not be saved: ${messageOf(error)}`, { error });
  }

  /**
   * The loss if the loop is stopped now, as words that follow "the last state"; `null` if
   * nothing is.
   */
  #loss(): string | null {
    if (!this.#isSavingAside || !(this.#isInStep || this.#saves?.isBehind)) return null;
    const what = this.#isInStep ? 'the step in progress had not ended' : 'it was not copied in time';
    return `could not be saved: ${what}`;
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

  /**
   * Resolves to the result of `body`, or to `null` if it failed recoverably or training is over.
   * After a recoverable failure the state is restored from its snapshot, if it has one.
   */
  async #recovering<T>(body: (snapshot: unknown) => Promise<T>): Promise<T | null> {
    const { coordinator, state, manager, logger } = this.#parts;
    let snapshot: unknown = null;
    try {
      snapshot = state.snapshot();
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
      manager?.leave();
      this.#restoreSnapshot(snapshot);
      return null;
    }
  }

  /** A state that cannot be restored is unknown, so the worker ends. */
  #restoreSnapshot(snapshot: unknown): void {
    try {
      this.#reset(snapshot);
    } catch (cause) {
      this.#parts.coordinator.onError(cause);
      if (!(cause instanceof RecoverableError)) throw cause;
      throw new NonRetryableException(`the snapshot could not be applied: ${cause.message}`, { cause });
    }
  }

  #reset(snapshot: unknown): void {
    if (snapshot !== null) this.#parts.state.apply(snapshot);
  }

  async #enterWorld(snapshot: unknown): Promise<World> {
    const { coordinator, state, manager, logger, preemption } = this.#parts;
    const world = await unlessPreempted(preemption, coordinator.rendezvous());
    this.#isSavingAside = this.#parts.saver !== null && world.rank === 0;
    await unlessPreempted(preemption, manager?.enter(world.rank));
    const haveState = await unlessPreempted(
      preemption,
      world.allGather(Uint8Array.of(this.#hasState ? 1 : 0)),
    );
    const isFirst = haveState.every(([flag]) => flag === 0);
    if (manager !== null && world.rank === 0 && isFirst) {
      await loadNewestCheckpoint(manager.current, state, { logger, reset: () => this.#reset(snapshot) });
    }
    await state.sync(world.size, world.rank);
    // Wait here until all ranks have synced. If one rank failed after the others went on, it would
    // restore its old state, and the others would keep it from loading the checkpoint again.
    await unlessPreempted(preemption, world.barrier());
    this.#hasState = true;
    return world;
  }

  /** False: the next rendezvous follows. */
  async #step(world: World): Promise<boolean> {
    const { coordinator, state, preemption } = this.#parts;
    const outcome = await this.#trainOnce();
    // the deadline of a preemption has passed, and the loop no longer waits for this step
    if (this.#isOver) return false;
    if (outcome === null) {
      await coordinator.signalTrainingDone();
      return false;
    }
    this.#saves?.noteStep();
    coordinator.monitorProgress(state, outcome.stats);
    await this.#save(world);
    if (await unlessPreempted(preemption, coordinator.shouldRendezvous(state))) return false;
    coordinator.reportProgress(state);
    return true;
  }

  /** `null`: no data is left. */
  async #trainOnce(): Promise<{ readonly stats: unknown } | null> {
    this.#isInStep = true;
    try {
      return { stats: await this.#parts.trainStep(this.#parts.state) };
    } catch (error) {
      if (error instanceof StopIteration) return null;
      throw error;
    } finally {
      this.#isInStep = false;
    }
  }

  /** Rank 0 writes. All ranks meet when it is done, whether the save succeeded or failed. */
  async #save(world: World): Promise<void> {
    const { coordinator, state, preemption } = this.#parts;
    if (this.#saves === null) return;
    if (!coordinator.shouldSaveCheckpoint() && !state.shouldSaveCheckpoint(world.rank)) return;
    const saving = world.rank === 0 ? this.#saves.save() : null;
    const [saved] = await Promise.allSettled([saving]);
    const [met] = await Promise.allSettled([unlessPreempted(preemption, world.barrier())]);
    const hasWorldEnded = met.status === 'rejected' && met.reason instanceof RecoverableError;
    if (saved.status === 'rejected') this.#saves.judge(saved.reason, { hasWorldEnded });
    if (met.status === 'rejected') throw met.reason;
  }
}
