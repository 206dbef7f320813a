/** Catalog entries repeat reasons, so each has an end, however much there is to say. Pure. */

const REASON_LENGTH_MAX = 1000;

/** As much of the text as a catalog entry takes. */
export function boundedReason(whole: string): string {
  return whole.length <= REASON_LENGTH_MAX
    ? whole
    : `${whole.slice(0, REASON_LENGTH_MAX - 1)}…`.toWellFormed();
}
