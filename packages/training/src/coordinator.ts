/** Which workers train together, and when they start again in a new world. */

import type { State } from './state.ts';

/** The workers that met at a rendezvous. */
export interface World {
  /** 0 to `size - 1`. Rank 0 is among the workers that have been present longest. */
  readonly rank: number;
  readonly size: number;
  /**
   * Resolves to the bytes of all ranks, in order of rank. Every rank must call it, and all ranks
   * must make these calls in the same order. `RecoverableError`: a worker is gone or did not come
   * in time; then every waiting rank gets this error.
   */
  allGather(bytes: Uint8Array): Promise<readonly Uint8Array[]>;
  /** Resolves when all ranks have called it. Otherwise as `allGather`. */
  barrier(): Promise<void>;
}

export interface Coordinator {
  /**
   * Waits for the other workers. `StopException`: training is over. Any error except
   * `RecoverableError` and `StopException` ends this worker.
   */
  rendezvous(): Promise<World>;
  /**
   * Called after each step, in addition to `State.shouldSaveCheckpoint`. All ranks must answer the
   * same.
   */
  shouldSaveCheckpoint(): boolean;
  /** Called after each step. True if workers came or left, so that a new world is needed. */
  shouldRendezvous(state: State): boolean | Promise<boolean>;
  shouldStopTraining(): boolean;
  /** This worker has no data left: no worker may join any more, and the others finish. */
  signalTrainingDone(): Promise<void>;
  /** Called after each step, with the value that the step returned. */
  monitorProgress(state: State, stats: unknown): void;
  reportProgress(state: State): void;
  onError(error: unknown): void;
}
