/**
 * torchelastic's train loop. Order of a world: snapshot, rendezvous, load (rank 0, only while nobody has a state yet), sync; then step by
 * step: snapshot, step, save, a look at who came and went. docs/training.md names what is different here, and why.
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
import type { TrainingCheckpointManager } from './checkpoints.ts';
import type { Coordinator, World } from './coordinator.ts';
import { NonRetryableException, RecoverableError, StopException, StopIteration } from './errors.ts';
import { loadNewestCheckpoint } from './load-checkpoint.ts';
import { LoopSaves, mayPass, messageOf } from './loop-saves.ts';
import { processWarnings } from './process-warnings.ts';
import { getCheckpointManager } from './registry.ts';
import type { Preemption } from './saving/preemption.ts';
import { unlessPreempted, untilDeadline } from './saving/preemption-waits.ts';
import type { Saver } from './saving/saver.ts';
import type { State } from './state.ts';

/** torchelastic's MAX_FAILURES. */
const FAILURES_MAX_DEFAULT = 100;

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
  /**
   * Rank 0 saves by it: the step is blocked for the copy only. Its manager is the one of `setCheckpointManager`. When the loop ends what is in
   * flight is waited for.
   */
  saver?: Saver | undefined;
  /**
   * After its notice the loop ends with the step that is under way; rank 0 has its state saved by `saver`, if there is time. `train` resolves at
   * the deadline at the latest: where a step is under way then, the state is one in the middle of it.
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
 * Trains until there is no data left, or the coordinator or a preemption ends it; resolves to the same state. Checkpoints are those of
 * `setCheckpointManager`, read once, at the call.
 *
 * Rejects with whatever is no `RecoverableError`, after `coordinator.onError`; with `NonRetryableException` after `failuresMax` recoverable
 * failures; with `InvalidArgument` for options that do not fit together, before anything is done. A save that fails for a while
 * (`RecoverableError`, or a `CheckpointError` that is not permanent) costs a checkpoint and no step.
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
  const manager = getCheckpointManager();
  const preemption = options.preemption ?? null;
  checkSavers(manager, saver, preemption);
  const parts = { coordinator, trainStep, state, manager, saver, preemption, failuresMax, logger };
  await new TrainLoop(parts).run();
  return state;
}

function checkSavers(
  manager: TrainingCheckpointManager | null,
  saver: Saver | null,
  preemption: Preemption | null,
): void {
  if (saver !== null && saver.manager !== manager) {
    throw new CheckpointError(
      'InvalidArgument',
      'the saver has another manager than setCheckpointManager was given: what it saves would not be what is loaded',
    );
  }
  if (saver !== null && preemption !== null && preemption.saver !== saver) {
    throw new CheckpointError(
      'InvalidArgument',
      'the preemption has another saver than the train loop: it would not wait for what the loop saves',
    );
  }
}

interface LoopParts<S extends State> {
  readonly coordinator: Coordinator;
  readonly trainStep: TrainStep<S>;
  readonly state: S;
  readonly manager: TrainingCheckpointManager | null;
  readonly saver: Saver | null;
  readonly preemption: Preemption | null;
  readonly failuresMax: number;
  readonly logger: Logger;
}

class TrainLoop<S extends State> {
  readonly #parts: LoopParts<S>;
  #failureCount = 0;
  /** This worker has been alike with others: whoever is new gets the state from one of these. */
  #hasState = false;
  #isOver = false;
  readonly #saves: LoopSaves | null;
  /** This worker is rank 0, and saves by a saver. */
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
    });
    // A loop that failed has not come to save its last state.
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

  /** Whoever is rank 0 and is to leave saves the state once more. */
  async #finishSaves(): Promise<void> {
    if (this.#saves === null) return;
    const { saver } = this.#parts;
    const isLast = this.#isPreempted && this.#failure === null && this.#isSavingAside;
    await (saver !== null && isLast ? this.#saves.saveLast(saver) : this.#saves.settle());
  }

  /** Of a save that failed after the last step. That of a worker that leaves is in the report. */
  #hearOfUnsaved(error: unknown): void {
    const { coordinator, logger } = this.#parts;
    coordinator.onError(error);
    if (this.#failure === null && !this.#isPreempted && !mayPass(error)) this.#failure = { error };
    else logger.log('warn', `a checkpoint could not be saved: ${messageOf(error)}`, { error });
  }

  /** What is lost if the loop is stopped here; in words that follow "the last state". */
  #loss(): string | null {
    if (!this.#isSavingAside || !(this.#isInStep || this.#saves?.isBehind)) return null;
    const what = this.#isInStep ? 'the step that was under way had not ended' : 'it was not copied in time';
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
    const { coordinator, state, manager, logger, preemption } = this.#parts;
    const world = await unlessPreempted(preemption, coordinator.rendezvous());
    this.#isSavingAside = this.#parts.saver !== null && world.rank === 0;
    const haveState = await unlessPreempted(
      preemption,
      world.allGather(Uint8Array.of(this.#hasState ? 1 : 0)),
    );
    const isFirst = haveState.every(([flag]) => flag === 0);
    if (manager !== null && world.rank === 0 && isFirst) {
      await loadNewestCheckpoint(manager, state, { logger, reset: () => this.#reset(snapshot) });
    }
    await state.sync(world.size, world.rank);
    // Were one to fail here alone, it would go back to where it was, and the others would keep it from loading again.
    await unlessPreempted(preemption, world.barrier());
    this.#hasState = true;
    return world;
  }

  /** False: on to the next rendezvous. */
  async #step(world: World): Promise<boolean> {
    const { coordinator, state, preemption } = this.#parts;
    const outcome = await this.#trainOnce();
    if (this.#isOver) return false; // the deadline of a preemption has passed, and nobody waits for this step any more
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

  /** `null`: there is no data left. */
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

  /** Rank 0 writes; all meet when it is done, however it went. */
  async #save(world: World): Promise<void> {
    const { coordinator, state, preemption } = this.#parts;
    if (this.#saves === null) return;
    if (!coordinator.shouldSaveCheckpoint() && !state.shouldSaveCheckpoint(world.rank)) return;
    const saving = world.rank === 0 ? this.#saves.save() : null;
    const [saved] = await Promise.allSettled([saving]);
    const [met] = await Promise.allSettled([unlessPreempted(preemption, world.barrier())]);
    if (saved.status === 'rejected') this.#saves.judge(saved.reason);
    if (met.status === 'rejected') throw met.reason;
  }
}
