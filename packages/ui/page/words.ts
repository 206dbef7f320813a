/** Numbers, sizes and times as people read them. Pure. */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',');
}

export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`;
}

/** The power of 1,024 in whose unit a size is shown. */
export function unitOf(value: number): number {
  let [size, unit] = [value, 0];
  while (size >= 999.5 && unit < UNITS.length - 1) [size, unit] = [size / 1024, unit + 1];
  return unit;
}

/** `412 MiB`: two or three figures. */
export function bytes(value: number): string {
  const unit = unitOf(value);
  const size = value / 1024 ** unit;
  const figures = unit === 0 || size >= 99.95 ? String(Math.round(size)) : size.toFixed(1);
  return `${figures} ${UNITS[unit]}`;
}

/** `17 s`, `4 min`, `2 h`, `12 d`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${(seconds / 3600).toFixed(1)} h`;
  return `${count(Math.round(seconds / 86_400))} d`;
}

/**
 * `4 min ago`. A time in the future means that the clocks of this machine and of the store differ,
 * so the text says that.
 */
export function age(atMs: number, nowMs: number): string {
  const ms = nowMs - atMs;
  if (ms < -5000) return `${duration(-ms)} in the future by this clock`;
  return ms < 1500 ? 'just now' : `${duration(ms)} ago`;
}

/** Smaller differences do not matter to people, and a slow request looks like one. */
const CLOCKS_DIFFER_MS = 30_000;

export function clocksDiffer(differenceMs: number): boolean {
  return Math.abs(differenceMs) > CLOCKS_DIFFER_MS;
}

/** How far the store's clock is from this machine's; `null`: they agree well enough. */
export function clocksText(differenceMs: number): string | null {
  if (!clocksDiffer(differenceMs)) return null;
  const ahead = differenceMs > 0 ? 'ahead of' : 'behind';
  return `The store is ${duration(Math.abs(differenceMs))} ${ahead} this machine. Ages of commits are by the store's clock`;
}

/** `2026-07-31 10:00:05 UTC`. A store may report any number. */
export function time(atMs: number): string {
  const date = new Date(atMs);
  return Number.isNaN(date.getTime())
    ? `${atMs} ms`
    : `${date.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** Four significant digits. */
export function metric(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  const size = Math.abs(value);
  return size >= 1e6 || size < 1e-4 ? value.toExponential(3) : String(Number(value.toPrecision(4)));
}

/** Quotes the argument for a POSIX shell. */
export function shellQuote(argument: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", `'\\''`)}'`;
}

/** The end of an id that people need: drawn ids have 128 bits. */
export function shortAttempt(attempt: string): string {
  return attempt.length > 28 ? `${attempt.slice(0, 24)}…` : attempt;
}
