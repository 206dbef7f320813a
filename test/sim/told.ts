/** What processes were told, held against what is in the catalog: at once, and again at the end. */

import type { Told as CrashTold } from '../crash/invariants.ts';
import type { History } from './history.ts';
import { violated } from './invariant-error.ts';

export interface Told {
  readonly process: string;
  readonly attempt: string;
  readonly version: number;
  readonly writer: number;
  readonly mark: string;
  /** `committed`, `delivered`, or the code of the error. */
  readonly outcome: string;
  /** Nobody else, and this process only once, tried to save these bytes: then a "no" can be checked. */
  readonly isOnlyTry: () => boolean;
}

/** What a store without damage gives no reason for is wrong whenever it is said. */
const POSSIBLE = new Set([
  'committed',
  'delivered',
  'recovered: committed',
  'recovered: not-committed',
  'recovered: pending',
  'recovered: unknown',
  'Fenced',
  'Conflict',
  'Incomplete',
  'OutcomeUnknown',
  'Unavailable',
  'TimedOut',
  'Aborted',
]);
/** "It is not committed, and will not be." */
const NO = new Set(['Fenced', 'Conflict', 'Unavailable', 'TimedOut', 'Aborted', 'recovered: not-committed']);

export class Ledger {
  readonly all: Told[] = [];
  readonly #history: History;

  constructor(history: History) {
    this.#history = history;
  }

  tell(told: Told): void {
    this.all.push(told);
    this.#check(told);
  }

  checkAll(): void {
    for (const told of this.all) this.#check(told);
  }

  /** As the checks of the crash stories want it. They know of no life that delivered the same and died untold. */
  forCrashChecks(): CrashTold[] {
    return this.all
      .filter(
        ({ outcome, isOnlyTry }) => !outcome.startsWith('recovered') && (!NO.has(outcome) || isOnlyTry()),
      )
      .map(({ attempt, writer, version, outcome }) => ({
        attempt,
        writer,
        version: BigInt(version),
        outcome,
      }));
  }

  #check({ process, version, writer, mark, outcome, isOnlyTry }: Told): void {
    if (!POSSIBLE.has(outcome)) violated('I7', `${process} was told ${outcome} of version ${version}`);
    const found = this.#history.find(version);
    const isIn = found?.marks.get(writer) === mark;
    if (outcome.endsWith(': committed') || outcome === 'committed') {
      if (!found) violated('I7', `${process} was told that ${version} is committed, but it is not`);
      if (!isIn)
        violated(
          'I7',
          `${process} was told that its ${version} is committed, but it is ${found.marks.get(writer)}'s`,
        );
    }
    if (NO.has(outcome) && isIn && isOnlyTry())
      violated('I7', `${process} was told ${outcome} of version ${version}, but its files are in it`);
  }
}
