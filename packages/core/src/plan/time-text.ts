/** Texts of spans and times for people. Pure. */

const UNITS_MS = [
  ['d', 24 * 60 * 60_000],
  ['h', 60 * 60_000],
  ['min', 60_000],
  ['s', 1000],
] as const;

/** In the largest unit that divides it: "36 h", "90 s", "1500 ms". */
export function durationText(ms: number): string {
  const unit = UNITS_MS.find(([, unitMs]) => ms >= unitMs && ms % unitMs === 0);
  if (ms === 0) return '0 s';
  return unit ? `${ms / unit[1]} ${unit[0]}` : `${ms} ms`;
}

/**
 * To the second: "2026-11-21 14:00:00 UTC". Times outside the calendar are shown in milliseconds.
 */
export function timeText(ms: number): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return `${ms} ms`;
  return `${date.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}
