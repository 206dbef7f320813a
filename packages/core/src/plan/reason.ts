/** Catalog entries repeat reasons, so each has a maximum length. Pure. */

const REASON_LENGTH_MAX = 1000;

/** The text, cut to what a catalog entry accepts. */
export function boundedReason(whole: string): string {
  return whole.length <= REASON_LENGTH_MAX
    ? whole
    : `${whole.slice(0, REASON_LENGTH_MAX - 1)}…`.toWellFormed();
}
