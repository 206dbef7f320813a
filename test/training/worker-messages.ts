/** What a scenario and its workers say to each other. */

/**
 * What a worker does from its third step on; before, all goes well. `preempt`: it is sent SIGTERM, and listens to it; it saves aside, so its
 * checkpoints are in a run.
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
  /** Of the rendezvous server. */
  readonly port: number;
  readonly minWorkers: number;
  readonly timeoutMs: number;
  readonly hook: Hook;
  readonly state: 'plain' | 'no-rollback' | 'fails-third-sync';
  /** Meets anew after every step. */
  readonly meetsOften: boolean;
  /** After every step; `null`: none. */
  readonly checkpoints: Checkpoints | null;
  readonly failuresMax?: number | undefined;
}

/** `train`: connects, and waits until it is told to begin. */
export type WorkerOrder = { readonly type: 'train'; readonly order: TrainOrder } | { readonly type: 'begin' };

export interface Trained {
  readonly type: 'trained';
  readonly rank: number;
  /** All that this worker saw, also what it saw twice. */
  readonly samples: readonly number[];
  readonly totalSum: number;
}

export interface Failed {
  readonly type: 'failed';
  readonly name: string;
  readonly message: string;
}

export type WorkerMessage = { readonly type: 'ready' } | { readonly type: 'connected' } | Trained | Failed;
