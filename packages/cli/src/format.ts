/** Formats values for people. Pure. */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

/** What `save` and `commit` say of a version that no rule keeps. */
export const RETIRED = 'retired since: it is removed unless it is undeleted';

/** Whole numbers with their digits in groups of three. */
export function formatCount(value: number | bigint): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `1 file`, `2 files`, `1,000 files`. */
export function formatPlural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

// The unit changes at 999.5 and not at 1,024, so that there are at most three digits.
function unitFor(bytes: number): { size: number; name: string } {
  let size = 1;
  let index = 0;
  while (bytes / size >= 999.5 && index < UNITS.length - 1) {
    size *= 1024;
    index += 1;
  }
  return { size, name: UNITS[index] as string };
}

function formatFigures(value: number, isWhole: boolean): string {
  if (isWhole) return formatCount(Math.round(value));
  if (value >= 99.95) return formatCount(Math.round(value));
  return value < 0.995 ? value.toFixed(2) : value.toFixed(1);
}

/** Binary units with two or three figures: `12.0 GiB`, `412 MiB`, `17 B`. */
export function formatBytes(bytes: number): string {
  const unit = unitFor(bytes);
  return `${formatFigures(bytes / unit.size, unit.size === 1)} ${unit.name}`;
}

/** `3.1 of 4.0 GiB`: both in the unit of the total. A total of 0 means unknown. */
export function formatShare(doneBytes: number, totalBytes: number): string {
  if (totalBytes === 0) return formatBytes(doneBytes);
  const unit = unitFor(totalBytes);
  const figure = (bytes: number) => (bytes === 0 ? '0' : formatFigures(bytes / unit.size, unit.size === 1));
  return `${figure(doneBytes)} of ${figure(totalBytes)} ${unit.name}`;
}

export function formatRate(bytesPerSecond: number): string {
  return `${formatBytes(bytesPerSecond)}/s`;
}

/** Elapsed time: `412 ms`, `29.4 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`. */
export function formatDuration(ms: number): string {
  if (ms < 999.5) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 99_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return joinUnits(Math.floor(seconds / 60), 'min', seconds % 60, 's');
  const minutes = Math.round(seconds / 60);
  if (minutes < 48 * 60) return joinUnits(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  const hours = Math.round(minutes / 60);
  return joinUnits(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

/** Short elapsed time: `0.4 ms`, `4.2 ms`, from 10 ms on as above. */
export function formatBriefDuration(ms: number): string {
  return ms < 9.95 ? `${Math.max(0, ms).toFixed(1)} ms` : formatDuration(ms);
}

function joinUnits(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0
    ? `${formatCount(large)} ${largeUnit}`
    : `${formatCount(large)} ${largeUnit} ${small} ${smallUnit}`;
}

/** In one unit, for rough times: `17 s`, `4 min`, `2 h`, `12 d`. */
export function formatRoughDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${formatCount(Math.round(seconds / 86_400))} d`;
}

/**
 * `2 min ago`. A date instead if it is over 60 days ago, or further in the future than clock
 * differences explain.
 */
export function formatAge(atMs: number, nowMs: number): string {
  const ageMs = nowMs - atMs;
  if (ageMs < -60_000 || ageMs > 60 * 86_400_000) return isoTime(atMs)?.slice(0, 10) ?? `${atMs} ms`;
  return ageMs < 1000 ? 'just now' : `${formatRoughDuration(ageMs)} ago`;
}

/** `2026-07-31 10:00:05 UTC`. */
export function formatTime(atMs: number): string {
  const time = isoTime(atMs);
  return time === null ? `${atMs} ms` : `${time.slice(0, 19).replace('T', ' ')} UTC`;
}

/** ISO 8601 in UTC. `null`: the time is outside the calendar. A store may report any value. */
export function isoTime(atMs: number): string | null {
  const date = new Date(atMs);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}

/** Rounds to at most four significant digits, but keeps all digits before the decimal point. */
export function formatMetric(value: number): string {
  if (value === 0 || Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toExponential(3);
  return String(Number(value.toFixed(Math.max(0, 3 - Math.floor(Math.log10(size))))));
}

/** `loss 2.131, auc 0.81`. */
export function formatMetrics(metrics: Readonly<Record<string, number>>): string {
  return Object.entries(metrics)
    .map(([name, value]) => `${printable(name)} ${formatMetric(value)}`)
    .join(', ');
}

/** `writer 2`, `writers 0 and 3`, `writers 0, 1, 2, 3, 4, 5, 6 and 93 more`. */
export function formatWriters(writers: readonly number[]): string {
  const shown = writers.length > 8 ? writers.slice(0, 7) : writers;
  const rest = writers.length - shown.length;
  if (shown.length === 1) return `writer ${shown[0]}`;
  const last = rest > 0 ? `${formatCount(rest)} more` : String(shown.at(-1));
  const first = rest > 0 ? shown : shown.slice(0, -1);
  return `writers ${first.join(', ')} and ${last}`;
}

/**
 * In the given order: `100, 200 and 300`. A long list shows the first ones and the last: `100, 200,
 * 300 … 900`.
 */
export function formatVersions(versions: readonly (bigint | string)[]): string {
  const last = versions.at(-1);
  if (last === undefined) return '';
  if (versions.length > 8) return `${versions.slice(0, 3).join(', ')} … ${last}`;
  return versions.length === 1 ? String(last) : `${versions.slice(0, -1).join(', ')} and ${last}`;
}

/**
 * Removes control characters, which must not reach a terminal: any program may have written the
 * names and reasons in a store.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, (character) => {
    const code = character.codePointAt(0) as number;
    return code < 0x100
      ? `\\x${code.toString(16).padStart(2, '0')}`
      : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/** Quotes the argument for a POSIX shell. */
export function shellQuote(argument: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", `'\\''`)}'`;
}
