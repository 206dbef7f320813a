/** What the collectors that are killed collect by. */

export const RULES = { policy: { keepLast: 2, graceMs: 0 }, force: true };
