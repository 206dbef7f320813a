/**
 * The retention rules. One table defines for each rule which values it takes, how a record holds
 * it, how it is written as text and which checkpoints it keeps. Nothing else in the engine names a
 * rule. Pure.
 */

import { plainObject, shown } from '../contract/checks.ts';
import { CheckpointError } from '../contract/errors.ts';
import { SPAN_MS_MAX } from '../contract/ranges.ts';
import type { KeepBest, RetentionPolicy } from '../contract/retention.ts';
import { type CatalogCheckpoint, type KeepBestRecord, type Policy, toVersion } from '../format/index.ts';
import { durationText, timeText } from './time-text.ts';

export type RuleName = Exclude<keyof RetentionPolicy, 'graceMs'>;

/** The checkpoints that a rule chooses from. */
export interface Candidates {
  /** In order of commit. */
  readonly live: readonly CatalogCheckpoint[];
  /** Those of `live` that no rollback left behind. */
  readonly path: readonly CatalogCheckpoint[];
  readonly storeNowMs: number;
}

/** A checkpoint that a rule keeps, and why in words. */
type Kept = readonly [checkpoint: CatalogCheckpoint, reason: string];

export interface RetentionRule<Name extends RuleName> {
  /** The value in a record if the rule is not set. */
  readonly absent: Policy[Name];
  /** True if its choice depends on the store's clock. */
  readonly isTimed: boolean;
  isSet(recorded: Policy[Name]): boolean;
  /** The value as a record holds it. `InvalidArgument`: the rule does not take this value. */
  record(given: NonNullable<RetentionPolicy[Name]>): Policy[Name];
  /** The value as a caller gave it. */
  given(recorded: Policy[Name]): NonNullable<RetentionPolicy[Name]>;
  /** One text, or one for each element of a list. */
  texts(recorded: Policy[Name]): string[];
  /** Called only if the rule is set. */
  keeps(recorded: Policy[Name], candidates: Candidates): Kept[];
  /**
   * Why the newest checkpoint is not kept, for the error that nothing is kept. `null`: the rule
   * always keeps something if there is a checkpoint.
   */
  missText(recorded: Policy[Name]): string | null;
}

const SPAN_MS_MIN = 1000;
const COUNT_MAX = 2 ** 32 - 1; // uint32, as the records hold it
const BEST_RULES_MAX = 100;
const METRICS_NAMED_MAX = 10;

const lastText = (count: number) => `newest ${count}`;
const youngText = (spanMs: number) => `younger than ${durationText(spanMs)}`;
const bestText = ({ metric, count }: KeepBestRecord) => `best ${count} by ${metric}`;

/** In the order in which texts list them. */
export const RULES: { readonly [Name in RuleName]: RetentionRule<Name> } = {
  keepLast: {
    ...numeric('keepLast', 1, COUNT_MAX),
    isTimed: false,
    texts: (count) => [lastText(count)],
    keeps: (count, { path }) => path.slice(-count).map((each) => [each, lastText(count)]),
    missText: (count) => `it was rolled back, so "${lastText(count)}" does not count it`,
  },
  keepEvery: {
    absent: 0n,
    isTimed: false,
    isSet: (step) => step > 0n,
    record: stepRecord,
    given: (step) => step,
    texts: (step) => [`multiples of ${step}`],
    keeps: (step, { live }) =>
      live.filter(({ id }) => id.version % step === 0n).map((each) => [each, `multiple of ${step}`]),
    missText: (step) => `it is not a multiple of ${step}`,
  },
  keepEveryMs: {
    ...numeric('keepEveryMs', SPAN_MS_MIN, SPAN_MS_MAX),
    isTimed: true,
    texts: (spanMs) => [`first of every ${durationText(spanMs)}`],
    keeps: (spanMs, candidates) =>
      chosen(candidates, (pool) => firstOfSpans(pool, spanMs)).map((each) => {
        const startMs = each.committedAtMs - (each.committedAtMs % spanMs);
        return [each, `first of the ${durationText(spanMs)} from ${timeText(startMs)}`];
      }),
    missText: () => null,
  },
  keepForMs: {
    ...numeric('keepForMs', SPAN_MS_MIN, SPAN_MS_MAX),
    isTimed: true,
    texts: (spanMs) => [youngText(spanMs)],
    keeps: (spanMs, { live, storeNowMs }) =>
      live
        .filter(({ committedAtMs }) => storeNowMs - committedAtMs <= spanMs)
        .map((each) => [each, youngText(spanMs)]),
    missText: (spanMs) => `it is not ${youngText(spanMs)}`,
  },
  keepBest: {
    absent: [],
    isTimed: false,
    isSet: ({ length }) => length > 0,
    record: bestRecords,
    given: (rules) =>
      rules.map(({ metric, highest, count }) => ({ metric, mode: highest ? 'max' : 'min', count })),
    texts: (rules) => rules.map((rule) => `${bestText(rule)} (${rule.highest ? 'highest' : 'lowest'})`),
    keeps: (rules, candidates) => rules.flatMap((rule) => keptBest(rule, candidates)),
    missText: () => null,
  },
};

export const RULE_NAMES = Object.keys(RULES) as readonly RuleName[];

/** Common parts of the rules whose value is a count or a span. */
function numeric(name: RuleName, least: number, most: number) {
  return {
    absent: 0,
    isSet: (recorded: number) => recorded > 0,
    record: (given: number) => inRange(name, given, least, most),
    given: (recorded: number) => recorded,
  };
}

/** A number of a rule. `InvalidArgument` names the rule, the value and what is accepted. */
export function inRange(name: string, value: number, least: number, most: number): number {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw refusal(
    `retention rule ${name} is ${shown(value)}; it takes a whole number from ${least} to ${most}`,
  );
}

function stepRecord(value: NonNullable<RetentionPolicy['keepEvery']>): bigint {
  if (value !== 0 && value !== 0n) return toVersion(value);
  throw refusal('retention rule keepEvery is 0; it takes a whole number from 1');
}

function bestRecords(rules: readonly KeepBest[]): KeepBestRecord[] {
  if (!Array.isArray(rules) || rules.length > BEST_RULES_MAX) {
    throw refusal(`keepBest takes a list of at most ${BEST_RULES_MAX} rules`);
  }
  return rules.map((rule: KeepBest) => {
    plainObject('a rule of keepBest', rule);
    const { metric, mode, count } = rule;
    if (typeof metric !== 'string' || metric === '') {
      throw refusal('a rule of keepBest needs the name of a metric, as it is passed to save');
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
  });
}

/**
 * What `choose` selects among those on the path, and the rolled-back ones that it selects among
 * all.
 */
function chosen(
  { live, path }: Candidates,
  choose: (pool: readonly CatalogCheckpoint[]) => CatalogCheckpoint[],
): CatalogCheckpoint[] {
  if (path.length === live.length) return choose(path);
  return [...choose(path), ...choose(live).filter((checkpoint) => checkpoint.rolledBack)];
}

/** By commit time; among several with the same time, the first one committed. */
function firstOfSpans(pool: readonly CatalogCheckpoint[], spanMs: number): CatalogCheckpoint[] {
  const first = new Map<number, CatalogCheckpoint>();
  for (const checkpoint of pool) {
    const span = Math.floor(checkpoint.committedAtMs / spanMs);
    const before = first.get(span);
    if (!before || checkpoint.committedAtMs < before.committedAtMs) first.set(span, checkpoint);
  }
  return [...first.values()];
}

function keptBest(rule: KeepBestRecord, candidates: Candidates): Kept[] {
  assertMetric(candidates.live, rule);
  return chosen(candidates, (pool) => best(pool, rule)).map((each) => [
    each,
    `${bestText(rule)} (${each.metrics[rule.metric]})`,
  ]);
}

/** Among equal ones the later is better, because it was trained longer. */
function best(
  pool: readonly CatalogCheckpoint[],
  { metric, highest, count }: KeepBestRecord,
): CatalogCheckpoint[] {
  const sign = highest ? -1 : 1;
  return pool
    .filter((checkpoint) => Object.hasOwn(checkpoint.metrics, metric))
    .map((checkpoint, index) => ({ checkpoint, index, rank: sign * (checkpoint.metrics[metric] ?? 0) }))
    .sort((a, b) => a.rank - b.rank || b.index - a.index)
    .slice(0, count)
    .map(({ checkpoint }) => checkpoint);
}

function assertMetric(live: readonly CatalogCheckpoint[], rule: KeepBestRecord): void {
  if (live.length === 0 || live.some(({ metrics }) => Object.hasOwn(metrics, rule.metric))) return;
  const names = [...new Set(live.flatMap((checkpoint) => Object.keys(checkpoint.metrics)))].sort();
  const more = names.length > METRICS_NAMED_MAX ? `, … (${names.length} in all)` : '';
  const there =
    names.length === 0
      ? 'no checkpoint has any metric; pass metrics to save, or annotate it later'
      : `there are: ${names.slice(0, METRICS_NAMED_MAX).join(', ')}${more}`;
  throw refusal(
    `the rule "${bestText(rule)}" cannot be used: no checkpoint has the metric "${rule.metric}"; ${there}`,
  );
}

function refusal(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
