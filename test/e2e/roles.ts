/** What tests of roles do on every cloud. */

/** Every version is sent whole, and none is suspect. */
export const FRESH: readonly string[] = ['--dedupe', 'off', '--on-stale', 'off'];

/** There is no terminal to ask at, and more than half of the run goes. */
export const SURE: readonly string[] = ['--apply', '--force'];
