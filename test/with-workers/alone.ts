/**
 * For tests that also run with transfer workers, and count what this thread hashes, wait for turns
 * of its loop, or expect an order in which several parts are hashed.
 */
export const ALONE = { workers: 0 } as const;
