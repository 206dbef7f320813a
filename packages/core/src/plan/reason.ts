/** Catalog entries repeat reasons, so each has a maximum length. Pure. */

export const REASON_LENGTH_MAX = 1000;

/** Whether a text that a person gives can be a reason as it is. */
export function isReason(given: unknown): given is string {
  return typeof given === 'string' && given.trim() !== '' && given.length <= REASON_LENGTH_MAX;
}

/** The text, cut to what a catalog entry accepts. */
export function boundedReason(whole: string): string {
  return whole.length <= REASON_LENGTH_MAX
    ? whole
    : `${whole.slice(0, REASON_LENGTH_MAX - 1)}…`.toWellFormed();
}

/** What the log says of a decision: a person's reason, if there is one, and that of the engine. */
export function loggedReason(person: string | undefined, engine: string): string {
  return person === undefined ? engine : boundedReason(`${person} (${engine})`);
}
