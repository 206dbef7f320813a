/** An entry of the catalog as the state that it holds, and questions about it. */

import type { State } from '../../format/index.ts';
import type { OpenPage } from '../../plan/pages.ts';
import { EMPTY_STATE } from '../../plan/state.ts';

/** The newest known entry. `seq` 0: there is no entry yet. */
export interface Head {
  readonly seq: number;
  readonly entryId: string;
  readonly runId: string;
  readonly state: State;
}

/** A question about a state. The pages that the question needs are open. */
export type Question<T> = (head: Head, open: readonly OpenPage[]) => T;

export interface CatalogAnswer<T> {
  readonly answer: T;
  /** The entry on which the answer was found, with its pages closed. */
  readonly head: Head;
}

export const EMPTY_HEAD: Head = { seq: 0, entryId: '', runId: '', state: EMPTY_STATE };
