/** Messages between a scenario and its workers. */

/**
 * What a worker does from its third step on. Earlier steps succeed. `preempt`: the worker gets
 * SIGTERM and handles it. It saves beside the training, so its checkpoints are in a run.
 */
export type Hook =
  | 'none'
  | 'kill'
  | 'freeze'
  | 'preempt'
  | 'recoverable-once'
  | 'recoverable-always'
  | 'foreign-error';

export type Checkpoints =
  | { readonly in: 'directory'; readonly path: string }
  /** Saved by the engine. `env`: credentials for the store. */
  | { readonly in: 'run'; readonly uri: string; readonly env: Readonly<Record<string, string>> };

export interface TrainOrder {
  /** Port of the rendezvous server. */
  readonly port: number;
  readonly minWorkers: number;
  readonly timeoutMs: number;
  readonly hook: Hook;
  readonly state: 'plain' | 'no-rollback' | 'fails-third-sync';
  /** The workers meet again after every step. */
  readonly meetsOften: boolean;
  /** Location of a checkpoint after every step. `null`: no checkpoints. */
  readonly checkpoints: Checkpoints | null;
  readonly failuresMax?: number | undefined;
}

/** `train`: connect, and wait for `begin`. */
export type WorkerOrder = { readonly type: 'train'; readonly order: TrainOrder } | { readonly type: 'begin' };

export interface Trained {
  readonly type: 'trained';
  readonly rank: number;
  /** All samples of this worker, including those it saw twice. */
  readonly samples: readonly number[];
  readonly totalSum: number;
}

export interface Failed {
  readonly type: 'failed';
  readonly name: string;
  readonly message: string;
}

export type WorkerMessage = { readonly type: 'ready' } | { readonly type: 'connected' } | Trained | Failed;
