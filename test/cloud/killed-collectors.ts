/** The retention rules of the collectors that are killed. */

export const RULES = { policy: { keepLast: 2, graceMs: 0 }, force: true };
