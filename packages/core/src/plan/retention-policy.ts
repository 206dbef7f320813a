/**
 * The retention rules of a run as a whole: as callers give them, as records hold them, and as text.
 * Pure.
 */

import { plainObject } from '../contract/checks.ts';
import { CheckpointError } from '../contract/errors.ts';
import { SPAN_MS_MAX } from '../contract/ranges.ts';
import type { RetentionPolicy } from '../contract/retention.ts';
import type { CatalogCheckpoint, KeepBestRecord, Policy } from '../format/index.ts';
import { type Candidates, inRange, RULE_NAMES, RULES, type RuleName } from './retention-rules.ts';
import { durationText } from './time-text.ts';

const GRACE_MS_DEFAULT = 60 * 60_000;

/** No rules: everything is kept. Checkpoints that are already retired have the default grace. */
export const NO_RULES: Policy = {
  ...forEachRule((name) => RULES[name].absent),
  graceMs: GRACE_MS_DEFAULT,
};

const BEST_MEMBERS: ReadonlySet<string> = new Set<keyof KeepBestRecord>(['metric', 'highest', 'count']);

/**
 * The rules as a record holds them, with the default grace. `InvalidArgument` names a rule that
 * does not exist, or one out of its range.
 */
export function policyRecord(policy: RetentionPolicy): Policy {
  plainObject('the policy', policy);
  const names = [...RULE_NAMES, 'graceMs'];
  for (const name of Object.keys(policy)) {
    if (!names.includes(name)) {
      throw new CheckpointError(
        'InvalidArgument',
        `there is no retention rule "${name}"; there are: ${names.join(', ')}`,
      );
    }
  }
  const { graceMs = GRACE_MS_DEFAULT } = policy;
  return {
    ...forEachRule((name) => recorded(name, policy[name])),
    graceMs: inRange('graceMs', graceMs, 0, SPAN_MS_MAX),
  };
}

function recorded<Name extends RuleName>(name: Name, given: RetentionPolicy[Name]): Policy[Name] {
  return given === undefined ? RULES[name].absent : RULES[name].record(given);
}

/**
 * The rules of a record. `null`: there are none, so everything is kept. `UnsupportedFormat`: a rule
 * is unknown, so the rules cannot be represented completely; see `assertKnownRules`.
 */
export function policyOf(record: Policy | undefined): RetentionPolicy | null {
  if (record === undefined) return null;
  assertKnownRules(record);
  const names = RULE_NAMES.filter((name) => isSet(record, name));
  if (names.length === 0) return null;
  const rules = Object.fromEntries(names.map((name) => [name, givenOf(record, name)]));
  return { ...rules, graceMs: record.graceMs };
}

function givenOf<Name extends RuleName>(record: Policy, name: Name): NonNullable<RetentionPolicy[Name]> {
  return RULES[name].given(record[name]);
}

/** As `policyRecord`; `null` means no rules. */
export function toPolicyRecord(policy: RetentionPolicy | null): Policy {
  return policy === null ? NO_RULES : policyRecord(policy);
}

/** A rule that this version of Holdfast does not know counts too: it may be the only one. */
export function hasRules(record: Policy): boolean {
  return unknownMembers(record).length > 0 || RULE_NAMES.some((name) => isSet(record, name));
}

export function hasTimedRules(record: Policy): boolean {
  return RULE_NAMES.some((name) => RULES[name].isTimed && isSet(record, name));
}

/**
 * True for the same rules and the same grace; lists must be in the same order. Unknown rules are
 * never the same.
 */
export function samePolicy(a: Policy, b: Policy): boolean {
  if (unknownMembers(a).length > 0 || unknownMembers(b).length > 0) return false;
  return a.graceMs === b.graceMs && RULE_NAMES.every((name) => isSame(a[name], b[name]));
}

/** Compares deeply, so that it works for the values of all rules. */
function isSame(a: unknown, b: unknown): boolean {
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object') return a === b;
  const entries = Object.entries(a);
  return (
    entries.length === Object.keys(b).length &&
    entries.every(([name, value]) => isSame(value, (b as Record<string, unknown>)[name]))
  );
}

/**
 * `UnsupportedFormat`: a newer Holdfast set a rule that this one does not know. Checkpoints that
 * only that rule keeps would be retired by mistake, so nothing may be retired here.
 */
export function assertKnownRules(record: Policy): void {
  const names = unknownMembers(record);
  if (names.length === 0) return;
  const what = names.map((name) => JSON.stringify(name)).join(', ');
  throw new CheckpointError(
    'UnsupportedFormat',
    `the rules of this run were set by a newer Holdfast and hold ${what}, which this one does not know: it retires nothing; upgrade it, or set other rules`,
  );
}

function unknownMembers(record: Policy): string[] {
  const known = new Set<string>([...RULE_NAMES, 'graceMs']);
  const ofBest = record.keepBest.flatMap((rule) => Object.keys(rule));
  return [
    ...Object.keys(record).filter((name) => !known.has(name)),
    ...new Set(ofBest.filter((name) => !BEST_MEMBERS.has(name))),
  ];
}

/** Each checkpoint that a rule keeps, with the reason of that rule; rule by rule. */
export function keptByRules(
  record: Policy,
  candidates: Candidates,
): (readonly [CatalogCheckpoint, string])[] {
  return RULE_NAMES.flatMap((name) => keptByRule(record, name, candidates));
}

function keptByRule<Name extends RuleName>(record: Policy, name: Name, candidates: Candidates) {
  return isSet(record, name) ? RULES[name].keeps(record[name], candidates) : [];
}

/** For each rule that keeps no checkpoint at all: why it does not keep even the newest one. */
export function missTexts(record: Policy): string[] {
  return RULE_NAMES.map((name) => missText(record, name)).filter((text) => text !== null);
}

function missText<Name extends RuleName>(record: Policy, name: Name): string | null {
  return isSet(record, name) ? RULES[name].missText(record[name]) : null;
}

/**
 * "newest 3, multiples of 1000, best 2 by loss (lowest)": every rule but the grace; empty without
 * rules.
 */
export function rulesText(record: Policy): string {
  return RULE_NAMES.flatMap((name) => ruleTexts(record, name)).join(', ');
}

function ruleTexts<Name extends RuleName>(record: Policy, name: Name): string[] {
  return isSet(record, name) ? RULES[name].texts(record[name]) : [];
}

/** With the grace: "newest 3; grace 1 h". */
export function policyText(record: Policy): string {
  return hasRules(record)
    ? `${rulesText(record)}; grace ${durationText(record.graceMs)}`
    : 'none: everything is kept';
}

function isSet<Name extends RuleName>(record: Policy, name: Name): boolean {
  return RULES[name].isSet(record[name]);
}

function forEachRule(value: (name: RuleName) => unknown): Pick<Policy, RuleName> {
  return Object.fromEntries(RULE_NAMES.map((name) => [name, value(name)])) as Pick<Policy, RuleName>;
}
