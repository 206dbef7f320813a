/** Shared by the tests of roles on every cloud. */

/** Sends every version completely and checks none for staleness. */
export const FRESH: readonly string[] = ['--dedupe', 'off', '--on-stale', 'off'];

/** There is no terminal to confirm at, and more than half of the run is deleted. */
export const SURE: readonly string[] = ['--apply', '--force'];
