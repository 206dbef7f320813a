/** What a test and the writers that it starts say to each other. */

import type { StoreOperation } from '@holdfast/core/store';

/** Before the request is sent; a moment later, when it is on its way; or after the answer, before the engine has it. */
export type Moment = 'before' | 'meanwhile' | 'after';

interface At {
  /** The call of this number among all of its save, from 0; or the first of those that match, after as many as are skipped. */
  readonly at: number | { readonly operation: StoreOperation; readonly key: RegExp; readonly skip?: number };
}

/** The process signals itself when it makes a call. After SIGSTOP it goes on where it was when somebody sends SIGCONT. */
export type Halt =
  | (At & { readonly signal: 'SIGKILL'; readonly moment: Moment })
  | (At & { readonly signal: 'SIGSTOP'; readonly moment: Exclude<Moment, 'after'> });

export interface SaveOrder {
  readonly uri: string;
  readonly attempt: string;
  readonly index: number;
  readonly count: number;
  readonly version: bigint;
  /** How large the first of its files is: see `largeFilesOf`. */
  readonly largeBytes: number;
  /** Part size of files; the store may want larger ones. */
  readonly partSizeBytes: number;
  /** The save joins, and sends all but the last bytes of its large file. Those it sends when it is let go. */
  readonly isHeld?: boolean | undefined;
  readonly halt?: Halt | undefined;
}

/** What the process was told about a save. */
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
