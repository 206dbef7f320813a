/** Who trains together, and when they begin anew. */

import type { State } from './state.ts';

/** The workers that met at a rendezvous. */
export interface World {
  /** 0 to `size - 1`. Rank 0 is one that has been there longest. */
  readonly rank: number;
  readonly size: number;
  /**
   * What all bring, by rank. Every rank calls it, and in the same order as others of these calls. `RecoverableError`: a worker is gone, or did
   * not come in time; then all that wait hear of it.
   */
  allGather(bytes: Uint8Array): Promise<readonly Uint8Array[]>;
  /** Resolves when all have called it. Otherwise as `allGather`. */
  barrier(): Promise<void>;
}

export interface Coordinator {
  /** Waits for the others. `StopException`: training is over. Any other error than `RecoverableError` ends this worker. */
  rendezvous(): Promise<World>;
  /** After each step; besides what the state says. All ranks answer the same. */
  shouldSaveCheckpoint(): boolean;
  /** After each step: workers came or went, so there is to be a new world. */
  shouldRendezvous(state: State): boolean | Promise<boolean>;
  shouldStopTraining(): boolean;
  /** This worker has no data left: nobody is to join any more, and the others finish. */
  signalTrainingDone(): Promise<void>;
  /** After each step, with what it returned. */
  monitorProgress(state: State, stats: unknown): void;
  reportProgress(state: State): void;
  onError(error: unknown): void;
}
