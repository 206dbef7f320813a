/**
 * Parses option values. Strict: ambiguous text is rejected, and the error says what is accepted.
 * Pure.
 */

import {
  type CheckpointReference,
  type KeepBest,
  LIFE_ACCEPTED,
  lifeProblem,
  SPAN_MS_MAX,
  WORLD_SIZE_MAX,
  type WriterPosition,
} from '@holdfast/core/contract';

/** The reason why a value is rejected. The caller knows the option's name and creates the error. */
export class BadValue extends Error {}

const VERSION_MAX = 2n ** 63n - 1n;

/** A version: a whole number from 0 to 2^63 - 1, never rounded. */
export function parseVersion(text: string): bigint {
  const version = /^\d{1,19}$/.test(text) ? BigInt(text) : -1n;
  if (version < 0n || version > VERSION_MAX) {
    throw new BadValue(`"${text}" is not a version; a version is a whole number from 0 to ${VERSION_MAX}`);
  }
  return version;
}

const LINEAGE_MAX = 2 ** 32 - 1;

/** A checkpoint: a version, optionally with the lineage of its commit, such as `7@2`. */
export function parseReference(text: string): CheckpointReference {
  const [, version, lineage] = /^([^@]*)@(.*)$/.exec(text) ?? [];
  if (version === undefined || lineage === undefined) return parseVersion(text);
  const number = /^[1-9]\d{0,9}$/.test(lineage) ? Number(lineage) : Number.NaN;
  if (number <= LINEAGE_MAX) return { version: parseVersion(version), lineage: number };
  throw new BadValue(
    `"${lineage}" in "${text}" is not a lineage; V@L is version V of lineage L, a whole number from 1 to ${LINEAGE_MAX}`,
  );
}

/** A checkpoint, or the word `latest`. */
export function parseReferenceOrLatest(text: string): CheckpointReference | 'latest' {
  if (text === 'latest') return 'latest';
  try {
    return parseReference(text);
  } catch (error) {
    throw new BadValue(`${(error as BadValue).message}, or "latest"`);
  }
}

const DAY_MS = 86_400_000;
const DURATION_UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: DAY_MS,
};

/** Milliseconds of `500ms`, `30s`, `10m`, `1.5h`, `2d` or `0`; 100 years at most. */
export const parseDuration = durationBetween(0, SPAN_MS_MAX);

const RULE_MS_MIN = 1000;

/** Like `parseDuration`, but at least one second. */
export const parseLongDuration = durationBetween(RULE_MS_MIN, SPAN_MS_MAX);

/** Like `parseLongDuration`, but at most one day: a time that a person waits. */
export const parseDeadline = durationBetween(RULE_MS_MIN, DAY_MS);

/** Parser of durations within these limits, both inclusive. */
export function durationBetween(minMs: number, maxMs: number): (text: string) => number {
  return (text) => {
    const ms = text === '0' ? 0 : millisecondsOf(text);
    if (ms < minMs) throw new BadValue(`"${text}" is too short; ${limitText(minMs)} is the shortest`);
    if (ms > maxMs) throw new BadValue(`"${text}" is too long; ${limitText(maxMs)} is the longest`);
    return ms;
  };
}

function millisecondsOf(text: string): number {
  const match = /^(\d{1,15}(?:\.\d{1,6})?)\s?(ms|s|m|h|d)$/.exec(text);
  if (match !== null) return Math.round(Number(match[1]) * (DURATION_UNITS[match[2] as string] as number));
  const reason = /^\d+(\.\d+)?$/.test(text) ? `"${text}" has no unit` : `"${text}" is not a duration`;
  throw new BadValue(`${reason}; write it like 500ms, 30s, 10m, 2h or 1d`);
}

/** In the largest unit that divides it. */
function limitText(ms: number): string {
  const units = Object.entries(DURATION_UNITS).filter(([, unitMs]) => ms % unitMs === 0);
  const [unit, unitMs] = units.at(-1) as [string, number];
  return `${ms / unitMs}${unit}`;
}

/** Every so many versions, or every so many milliseconds. */
export type Interval =
  | { readonly versions: bigint; readonly ms?: undefined }
  | { readonly ms: number; readonly versions?: undefined };

/** `1000`: multiples of it; `1h`: a span. */
export function parseInterval(text: string): Interval {
  if (!/^\d+$/.test(text)) {
    if (/^\d+(\.\d+)?\s?[a-z]+$/.test(text)) return { ms: parseLongDuration(text) };
    throw new BadValue(
      `"${text}" is neither a number of versions nor a duration; write it like 1000, 1h or 1d`,
    );
  }
  const versions = parseVersion(text);
  if (versions < 1n) throw new BadValue('"0" is out of range; write 1 or more, or a duration such as 1h');
  return { versions };
}

const KEEP_COUNT_MAX = 2 ** 32 - 1; // A uint32, as in the records.

/** How many of the newest, 1 to 4,294,967,295, or `all`. */
export function parseKeepCount(text: string): number | 'all' {
  if (text === 'all') return 'all';
  try {
    return parseWhole(1, KEEP_COUNT_MAX)(text);
  } catch (error) {
    throw new BadValue(`${(error as BadValue).message}, nor "all"`);
  }
}

/** Parses `loss:min:3`. The name may contain colons. */
export function parseKeepBest(text: string): KeepBest {
  const match = /^(.+):(min|max):(\d{1,15})$/.exec(text);
  const count = Number(match?.[3] ?? 0);
  if (match === null || count < 1) {
    throw new BadValue(`"${text}" is not of the form METRIC:min|max:COUNT, such as loss:min:3 or auc:max:1`);
  }
  if (count > KEEP_COUNT_MAX)
    throw new BadValue(`the count of "${text}" is too high; ${KEEP_COUNT_MAX} is the highest`);
  return { metric: match[1] as string, mode: match[2] as 'min' | 'max', count };
}

/** Each is 1,024 of the one before. */
const SIZE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/**
 * Bytes of `256MiB`, `1.5GiB`, `65536B`. Decimal units are rejected: they are nearly always
 * misspelt binary ones.
 */
export function parseSize(text: string): number {
  const match = /^(\d{1,15}(?:\.\d{1,6})?)\s?([A-Za-z]+)$/.exec(text);
  const unit = match?.[2]?.toLowerCase();
  const power = SIZE_UNITS.findIndex((name) => name.toLowerCase() === unit);
  if (match !== null && power !== -1) return Math.round(Number(match[1]) * 1024 ** power);
  const letter = /^(\d+(?:\.\d+)?)\s?([KMGT])B?$/i.exec(text);
  if (letter !== null) {
    throw new BadValue(
      `"${text}" is not a size in binary units; write ${letter[1]}${letter[2]?.toUpperCase()}iB`,
    );
  }
  const reason = /^\d+(\.\d+)?$/.test(text) ? `"${text}" has no unit` : `"${text}" is not a size`;
  throw new BadValue(`${reason}; write it like 65536B, 64KiB, 256MiB or 1GiB`);
}

/** A size within limits. */
export function sizeBetween(minBytes: number, maxBytes: number): (text: string) => number {
  return (text) => {
    const bytes = parseSize(text);
    if (bytes < minBytes || bytes > maxBytes) {
      const accepted = `from ${exactSize(minBytes)} to ${exactSize(maxBytes)}`;
      throw new BadValue(`"${text}" is not a size ${accepted}`);
    }
    return bytes;
  };
}

/** In the largest unit that needs no fraction: `16MiB`. */
function exactSize(bytes: number): string {
  let [left, power] = [bytes, 0];
  while (left % 1024 === 0 && power < SIZE_UNITS.length - 1) [left, power] = [left / 1024, power + 1];
  return `${left}${SIZE_UNITS[power]}`;
}

/** Bytes per second of `50MiB/s`: a size followed by `/s`. At least one. */
export function parseRate(text: string): number {
  const match = /^(.+)\/s$/.exec(text);
  if (match === null) throw new BadValue(`"${text}" is not a rate; write it like 512KiB/s or 50MiB/s`);
  const bytesPerSecond = parseSize(match[1] as string);
  if (bytesPerSecond < 1) throw new BadValue(`"${text}" would send nothing; omit the option for no limit`);
  return bytesPerSecond;
}

/** `I/N`: writer I of N, I from 0. */
export function parseWriter(text: string): WriterPosition {
  const match = /^(\d{1,9})\/(\d{1,9})$/.exec(text);
  if (match === null)
    throw new BadValue(`"${text}" is not a writer; write I/N, such as 0/4 for the first of four`);
  return checkedWriter(Number(match[1]), Number(match[2]));
}

/** The writer position from two numbers. */
export function checkedWriter(index: number, count: number): WriterPosition {
  if (count < 1) throw new BadValue(`there is no writer ${index} of ${count}; N must be at least 1`);
  if (count > WORLD_SIZE_MAX)
    throw new BadValue(`there is no writer ${index} of ${count}; at most ${WORLD_SIZE_MAX} processes write`);
  if (index >= count) {
    throw new BadValue(
      `there is no writer ${index} of ${count}: I counts from 0 to N-1, here from 0 to ${count - 1}`,
    );
  }
  return { index, count };
}

/** The name of a life, or the word `parent`. */
export function parseLife(text: string): string {
  const problem = lifeProblem(text) ?? (text.startsWith('--') ? 'looks like an option' : null);
  if (problem !== null) throw new BadValue(`the life ${problem}; it takes ${LIFE_ACCEPTED}, or "parent"`);
  return text;
}

/** `yes` or `no`, as a flag in the environment, or `everything`. */
export function parseReplace(text: string): boolean | 'everything' {
  if (text === 'everything') return text;
  if (/^(1|true|yes|on)$/i.test(text)) return true;
  if (/^(0|false|no|off)$/i.test(text)) return false;
  throw new BadValue(`"${text}" cannot be replaced; write it without a value, or =everything`);
}

/** A whole number within limits, both inclusive. */
export function parseWhole(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min && value <= max))
      throw new BadValue(`"${text}" is not a whole number from ${min} to ${max}`);
    return value;
  };
}

/** One of a few words. */
export function parseChoice<const T extends string>(choices: readonly T[]): (text: string) => T {
  return (text) => {
    const found = choices.find((choice) => choice === text);
    if (found === undefined) throw new BadValue(`"${text}" is not one of ${choices.join(', ')}`);
    return found;
  };
}

function splitPair(text: string, example: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 1) throw new BadValue(`"${text}" is not of the form NAME=VALUE, such as ${example}`);
  return [text.slice(0, at), text.slice(at + 1)];
}

/** `loss=2.1`: a name and a finite number. */
export function parseMetric(text: string): readonly [string, number] {
  const [name, value] = splitPair(text, 'loss=2.1');
  const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value) ? Number(value) : Number.NaN;
  if (!Number.isFinite(number))
    throw new BadValue(
      `the value of "${name}" is "${value}"; a metric is a finite number, such as ${name}=2.1`,
    );
  return [name, number];
}

/** `key=value`: the value is the rest of the text, further `=` included. */
export function parseMeta(text: string): readonly [string, string] {
  return splitPair(text, 'job=4711');
}

/** A glob. The engine checks it. */
export function parseGlob(text: string): string {
  if (text === '' || text === '!')
    throw new BadValue(`"${text}" is not a glob; write it like "*.pt" or "layer-{1,2}/**"`);
  return text;
}

/** Pairs as a record. A repeated name is rejected. */
export function pairsToRecord<T>(pairs: readonly (readonly [string, T])[]): Record<string, T> {
  const names = new Set<string>();
  for (const [name] of pairs) {
    if (names.has(name)) throw new BadValue(`"${name}" is given twice`);
    names.add(name);
  }
  return Object.fromEntries(pairs);
}

/**
 * With one slash it is a typing error, or a URI changed by joining paths. A single letter may be a
 * drive.
 */
export function isUri(text: string | undefined): boolean {
  return /^[a-z][a-z0-9+.-]+:\//i.test(text ?? '');
}

/** A path on this machine. The error does not repeat a URI, which may hold a secret. */
export function parsePath(text: string): string {
  if (isUri(text)) throw new BadValue('expected a path on this machine, and got a URI');
  return text;
}
