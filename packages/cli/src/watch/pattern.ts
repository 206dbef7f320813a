/** Names of checkpoints in a watched directory. */

import { BadValue } from '../values.ts';

const PLACE = '{version}';

export interface Pattern {
  readonly text: string;
  /** The version in a name. `null`: the name does not match. */
  versionIn(name: string): bigint | null;
}

/** `step-{version}`, `epoch=*-step={version}.ckpt`. `*` stands for any characters but "/". */
export function parsePattern(text: string): Pattern {
  const [before = '', after, ...more] = text.split(PLACE);
  if (after === undefined || more.length > 0)
    throw new BadValue(`"${text}" must contain ${PLACE} once, as in step-${PLACE}`);
  if (text.includes('/')) throw new BadValue(`"${text}" contains "/"; it is compared with names in DIR`);
  if (before.endsWith('*') || after.startsWith('*'))
    throw new BadValue(`"${text}" has "*" beside ${PLACE}, so the number could begin anywhere`);
  const whole = new RegExp(`^${expressionOf(before)}(\\d{1,19})${expressionOf(after)}$`);
  return {
    text,
    versionIn: (name) => {
      const digits = whole.exec(name)?.[1];
      if (digits === undefined) return null;
      const version = BigInt(digits);
      return version < 2n ** 63n ? version : null;
    },
  };
}

function expressionOf(text: string): string {
  return text
    .split('*')
    .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    .join('[^/]*');
}
