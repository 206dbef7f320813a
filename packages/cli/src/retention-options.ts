/**
 * The rules of a run as options: the same for `save`, which sets them, and `gc`, which applies them
 * once.
 */

import type { RetentionPolicy } from '@holdfast/core/contract';
import type { Call } from './command.ts';
import { checked, type Option, value, valueList } from './option.ts';
import { usageError } from './usage-error.ts';
import {
  BadValue,
  type Interval,
  parseDuration,
  parseInterval,
  parseKeepBest,
  parseKeepCount,
  parseLongDuration,
} from './values.ts';

const keep = value('--keep <n>', 'keep the newest N; all: no rules, everything is kept', parseKeepCount);
const keepEvery = valueList(
  '--keep-every <n|duration>',
  'keep versions that are multiples of N, or the first in each 1h, 1d, …; may be given once of each kind',
  parseInterval,
);
const keepFor = value(
  '--keep-for <duration>',
  'keep what was committed within this time, such as 30d',
  parseLongDuration,
);
const keepBest = valueList(
  '--keep-best <metric:min|max:n>',
  'keep the best N by a metric, such as loss:min:3; may be repeated',
  parseKeepBest,
);
export const grace = value(
  '--grace <duration>',
  'how long a retired version can be undeleted before it is removed; default 1h',
  parseDuration,
);

export const RETENTION_OPTIONS: readonly Option<unknown>[] = [keep, keepEvery, keepFor, keepBest, grace];

/**
 * Rules and grace from the options. `rules`: without a rule in it, everything is kept; `undefined`
 * if the options give no rule. A grace may be given alone.
 */
export interface GivenRetention {
  readonly rules: RetentionPolicy | undefined;
  readonly graceMs: number | undefined;
}

/** Throws `InvalidArgument` if the options contradict each other. */
export function givenRetention(call: Pick<Call, 'get'>): GivenRetention {
  const kept = call.get(keep);
  const graceMs = call.get(grace);
  const others: RetentionPolicy = {
    ...intervals(call.get(keepEvery) ?? []),
    ...defined('keepForMs', call.get(keepFor)),
    ...defined('keepBest', call.get(keepBest)),
  };
  const isGivenOther = Object.keys(others).length > 0;
  if (kept === 'all' && isGivenOther) {
    throw usageError('--keep all cannot be combined with other rules', [
      'everything is kept, so other rules have no effect',
    ]);
  }
  if (kept === undefined && !isGivenOther) return { rules: undefined, graceMs };
  const last = kept === 'all' ? undefined : kept;
  return { rules: { ...defined('keepLast', last), ...others, ...defined('graceMs', graceMs) }, graceMs };
}

/**
 * The rules that a save sets for its run; `undefined`: the rules stay unchanged. `InvalidArgument`:
 * a grace without a rule.
 */
export function rulesToSet(call: Pick<Call, 'get'>): RetentionPolicy | undefined {
  const { rules, graceMs } = givenRetention(call);
  if (rules !== undefined || graceMs === undefined) return rules;
  throw usageError('--grace needs a rule, such as --keep 3', [
    'it is how long versions that no rule keeps can be undeleted',
  ]);
}

function intervals(given: readonly Interval[]): Pick<RetentionPolicy, 'keepEvery' | 'keepEveryMs'> {
  return checked('InvalidArgument', '--keep-every', () => {
    const versions = given.filter((each) => each.versions !== undefined);
    const spans = given.filter((each) => each.ms !== undefined);
    if (versions.length > 1) throw new BadValue('two numbers are given; one and a duration are accepted');
    if (spans.length > 1) throw new BadValue('two durations are given; one and a number are accepted');
    return { ...defined('keepEvery', versions[0]?.versions), ...defined('keepEveryMs', spans[0]?.ms) };
  });
}

function defined<K extends string, T>(name: K, item: T | undefined): { [name in K]?: T } {
  return (item === undefined ? {} : { [name]: item }) as { [name in K]?: T };
}
