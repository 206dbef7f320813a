/** What is said of bytes that are not what they should be: the file, the tensor or table, the place, what was expected and found. */

import { CheckpointError } from '@holdfast/core/contract';

/** A message stays one readable line, whatever the bytes hold. */
const QUOTED_MAX = 200;

export interface Damage {
  /** As it is called in messages. */
  readonly file: string;
  /** Such as `tensor "dense/bias:0"`; `null`: not known yet. */
  readonly what: string | null;
  /** Where it is in the file. */
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

/** A name as messages show it: in quotes, on one line, cut off where it is long. */
export function quoted(name: string): string {
  return JSON.stringify(name.length > QUOTED_MAX ? `${name.slice(0, QUOTED_MAX)}…` : name);
}
