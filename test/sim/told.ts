/** Compares the answers that processes got with the catalog, at once and again at the end. */

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
  /**
   * True if only this process, and only once, tried to save these bytes. A negative answer can then
   * be checked.
   */
  readonly isOnlyTry: () => boolean;
}

/** Outcomes that are possible on a store without damage. Any other outcome is wrong. */
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
/** Answers that mean: "It is not committed, and will not be." */
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

  /**
   * In the form that the checks of the crash stories take. They do not know of a life that
   * delivered the same files and died before it got an answer.
   */
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
