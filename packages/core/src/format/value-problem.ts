/** The position of a value in a record, and what is wrong with it. */

import { shown } from '../contract/index.ts';

const PATH_CHARS_MAX = 400;

/** Names and indices from the record to a value: `state.checkpoints[3].bases[0].version`. */
export class ValuePath {
  readonly #segments: (string | number)[] = [];

  enter(segment: string | number): void {
    this.#segments.push(segment);
  }

  leave(): void {
    this.#segments.pop();
  }

  /**
   * Shortens names: in maps and unknown members they may be very long, but a message must not be.
   */
  get text(): string {
    const segments = this.#segments.map((each) => (typeof each === 'string' ? shortened(each) : each));
    const text = segments.map((each) => (typeof each === 'number' ? `[${each}]` : `.${each}`)).join('');
    return shortened(text.replace(/^\./, ''));
  }
}

function shortened(text: string): string {
  if (text.length <= PATH_CHARS_MAX) return text;
  return `${text.slice(0, PATH_CHARS_MAX / 2)}…${text.slice(-PATH_CHARS_MAX / 2)}`;
}

/** A value that violates the schema. Callers turn it into an error of their own kind. */
export class ValueProblem extends Error {
  readonly path: string;
  readonly accepted: string;
  readonly found: string;

  constructor(path: string, accepted: string, value: unknown) {
    const found = describe(value);
    super(`${path} is ${found}; it must be ${accepted}`);
    this.path = path;
    this.accepted = accepted;
    this.found = found;
  }
}

function describe(value: unknown): string {
  if (value === undefined) return 'absent';
  return typeof value === 'bigint' ? String(value) : shown(value);
}
