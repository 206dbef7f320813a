/**
 * Errors for damaged bytes. They name the file, the tensor or table, the offset, and what was
 * expected and found.
 */

import { CheckpointError } from '@holdfast/core/contract';

/** Keeps a message one readable line, whatever the bytes hold. */
const QUOTED_MAX = 200;

export interface Damage {
  /** The name of the file in messages. */
  readonly file: string;
  /** For example `tensor "dense/bias:0"`; `null`: not known yet. */
  readonly what: string | null;
  /** Offset in the file. */
  readonly offsetBytes: number;
  readonly problem: string;
  readonly expected?: string;
  readonly found?: string;
}

export function corrupt(damage: Damage): CheckpointError {
  const { file, what, offsetBytes, problem, expected, found } = damage;
  const place = `${file}: ${what === null ? '' : `${what}, `}at byte ${offsetBytes}`;
  const compared = expected === undefined ? '' : `: expected ${expected}, found ${found}`;
  return new CheckpointError('Corrupt', `${place}: ${problem}${compared}`, {
    context: {
      name: file,
      offsetBytes,
      ...(what !== null && { what }),
      ...(expected !== undefined && { expected }),
      ...(found !== undefined && { found }),
    },
  });
}

/** A name for messages: in quotes, on one line, shortened if it is long. */
export function quoted(name: string): string {
  return JSON.stringify(name.length > QUOTED_MAX ? `${name.slice(0, QUOTED_MAX)}…` : name);
}
