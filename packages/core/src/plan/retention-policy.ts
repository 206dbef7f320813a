/** The rules of retention: what callers give, what records hold, and how they read in words. Pure. */

import { plainObject, shown } from '../contract/checks.ts';
import { CheckpointError } from '../contract/errors.ts';
import { SPAN_MS_MAX } from '../contract/ranges.ts';
import type { KeepBest, RetentionPolicy } from '../contract/retention.ts';
import { type KeepBestRecord, type Policy, toVersion } from '../format/index.ts';

const GRACE_MS_DEFAULT = 60 * 60_000;
const SPAN_MS_MIN = 1000;
const COUNT_MAX = 2 ** 32 - 1; // uint32, as the records hold it
const RULES_MAX = 100;
const UNITS_MS = [
  ['d', 24 * 60 * 60_000],
  ['h', 60 * 60_000],
  ['min', 60_000],
  ['s', 1000],
] as const;

const NAMES = ['keepLast', 'keepEvery', 'keepEveryMs', 'keepForMs', 'keepBest', 'graceMs'];

/** The rules as a record holds them, with the default grace. `InvalidArgument` names a rule that is none, or one out of its range. */
export function policyRecord(policy: RetentionPolicy): Policy {
  plainObject('the policy', policy);
  for (const name of Object.keys(policy)) {
    if (!NAMES.includes(name)) {
      throw refusal(`there is no retention rule "${name}"; there are: ${NAMES.join(', ')}`);
    }
  }
  const { keepLast, keepEvery, keepEveryMs, keepForMs, keepBest = [], graceMs } = policy;
  if (!Array.isArray(keepBest) || keepBest.length > RULES_MAX) {
    throw refusal(`keepBest takes a list of at most ${RULES_MAX} rules`);
  }
  return {
    keepLast: optional('keepLast', keepLast, 1, COUNT_MAX) ?? 0,
    keepEvery: keepEvery === undefined ? 0n : checkedEvery(keepEvery),
    keepEveryMs: optional('keepEveryMs', keepEveryMs, SPAN_MS_MIN, SPAN_MS_MAX) ?? 0,
    keepForMs: optional('keepForMs', keepForMs, SPAN_MS_MIN, SPAN_MS_MAX) ?? 0,
    keepBest: keepBest.map(bestRecord),
    graceMs: optional('graceMs', graceMs, 0, SPAN_MS_MAX) ?? GRACE_MS_DEFAULT,
  };
}

/** The rules of a record. `null`: there are none, so that everything is kept. */
export function policyOf(record: Policy | undefined): RetentionPolicy | null {
  if (!record || rulesText(record) === '') return null;
  const { keepLast, keepEvery, keepEveryMs, keepForMs, keepBest, graceMs } = record;
  return {
    ...(keepLast > 0 && { keepLast }),
    ...(keepEvery > 0n && { keepEvery }),
    ...(keepEveryMs > 0 && { keepEveryMs }),
    ...(keepForMs > 0 && { keepForMs }),
    ...(keepBest.length > 0 && {
      keepBest: keepBest.map(({ metric, highest, count }) => ({
        metric,
        mode: highest ? ('max' as const) : ('min' as const),
        count,
      })),
    }),
    graceMs,
  };
}

/** No rules at all: everything is kept. What is retired already has the default grace. */
export const NO_RULES: Policy = policyRecord({});

/** As `policyRecord`; `null` means none. */
export function toPolicyRecord(policy: RetentionPolicy | null): Policy {
  return policy === null ? NO_RULES : policyRecord(policy);
}

export function samePolicy(a: Policy, b: Policy): boolean {
  return a.graceMs === b.graceMs && rulesText(a) === rulesText(b);
}

/** "newest 3, multiples of 1000, best 2 by loss (lowest)": every rule but the grace; empty without any. */
export function rulesText(policy: Policy): string {
  return [
    policy.keepLast > 0 ? lastText(policy.keepLast) : '',
    policy.keepEvery > 0n ? `multiples of ${policy.keepEvery}` : '',
    policy.keepEveryMs > 0 ? `first of every ${durationText(policy.keepEveryMs)}` : '',
    policy.keepForMs > 0 ? `younger than ${durationText(policy.keepForMs)}` : '',
    ...policy.keepBest.map((rule) => `${bestText(rule)} (${rule.highest ? 'highest' : 'lowest'})`),
  ]
    .filter((text) => text !== '')
    .join(', ');
}

/** With the grace: "newest 3; grace 1 h". */
export function policyText(policy: Policy): string {
  const rules = rulesText(policy);
  return rules === '' ? 'none: everything is kept' : `${rules}; grace ${durationText(policy.graceMs)}`;
}

export function lastText(count: number): string {
  return `newest ${count}`;
}

export function bestText({ metric, count }: KeepBestRecord): string {
  return `best ${count} by ${metric}`;
}

/** In the largest unit that divides it: "36 h", "90 s", "1500 ms". */
export function durationText(ms: number): string {
  const unit = UNITS_MS.find(([, unitMs]) => ms >= unitMs && ms % unitMs === 0);
  if (ms === 0) return '0 s';
  return unit ? `${ms / unit[1]} ${unit[0]}` : `${ms} ms`;
}

/** To the second: "2026-11-21 14:00:00 UTC". Times that no calendar has are told in milliseconds. */
export function timeText(ms: number): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return `${ms} ms`;
  return `${date.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

function optional(name: string, value: number | undefined, least: number, most: number): number | undefined {
  return value === undefined ? undefined : inRange(name, value, least, most);
}

function inRange(name: string, value: number, least: number, most: number): number {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw refusal(
    `retention rule ${name} is ${shown(value)}; it takes a whole number from ${least} to ${most}`,
  );
}

function checkedEvery(value: NonNullable<RetentionPolicy['keepEvery']>): bigint {
  if (value !== 0 && value !== 0n) return toVersion(value);
  throw refusal('retention rule keepEvery is 0; it takes a whole number from 1 on');
}

function bestRecord(rule: KeepBest): KeepBestRecord {
  plainObject('a rule of keepBest', rule);
  const { metric, mode, count } = rule;
  if (typeof metric !== 'string' || metric === '') {
    throw refusal('a rule of keepBest names its metric, as it is given to save');
  }
  if (mode !== 'min' && mode !== 'max') {
    throw refusal(
      `mode of keepBest by ${metric} is ${shown(mode)}; it takes min (low values are good) or max`,
    );
  }
  return {
    metric,
    highest: mode === 'max',
    count: inRange(`keepBest by ${metric}`, count, 1, COUNT_MAX),
  };
}

function refusal(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
