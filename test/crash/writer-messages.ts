/** The messages between a test and the writers that it starts. */

import type { StoreOperation } from '@holdfast/core/store';

/**
 * When the halt happens. `before`: before the request is sent. `meanwhile`: a moment later, while
 * it is on its way. `after`: after the answer arrived and before the engine gets it.
 */
export type Moment = 'before' | 'meanwhile' | 'after';

interface At {
  /**
   * A number: the index of the call within its save, from 0. An object: the first matching call
   * after `skip` matches.
   */
  readonly at: number | { readonly operation: StoreOperation; readonly key: RegExp; readonly skip?: number };
}

/**
 * The process sends this signal to itself at the given call. After SIGSTOP it continues when
 * another process sends SIGCONT.
 */
export type Halt =
  | (At & { readonly signal: 'SIGKILL'; readonly moment: Moment })
  | (At & { readonly signal: 'SIGSTOP'; readonly moment: Exclude<Moment, 'after'> });

export interface SaveOrder {
  readonly uri: string;
  readonly attempt: string;
  readonly index: number;
  readonly count: number;
  readonly version: bigint;
  /** Size of the first file. See `largeFilesOf`. */
  readonly largeBytes: number;
  /** Part size of files. The store may require larger parts. */
  readonly partSizeBytes: number;
  /**
   * The save joins and sends all but the last bytes of its large file. It sends the rest when it is
   * released.
   */
  readonly isHeld?: boolean | undefined;
  readonly halt?: Halt | undefined;
}

/** The result of a save, as the process received it. */
export interface Answer {
  /** `committed`, or the code of the error. */
  readonly outcome: string;
  readonly message: string;
  /** Calls to the store, in order. */
  readonly calls: readonly StoreOperation[];
}

export type WriterOrder =
  | { readonly type: 'save'; readonly id: number; readonly order: SaveOrder }
  | { readonly type: 'go'; readonly id: number };

export type WriterMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'joined' | 'delivered'; readonly id: number }
  | { readonly type: 'told'; readonly id: number; readonly answer: Answer }
  | { readonly type: 'failed'; readonly id: number; readonly message: string };
