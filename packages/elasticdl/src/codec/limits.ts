/**
 * Limits for files that are read, and therefore also for files that are written. Each limits the
 * memory that a hostile file could take.
 */

/** Most bytes of a name in UTF-8. */
export const NAME_BYTES_MAX = 65_536;
/** Most bytes of an initializer in UTF-8, and of other short fields. */
export const SHORT_BYTES_MAX = 4096;
/** TensorFlow's own limit for the dimensions of a tensor. */
export const RANK_MAX = 254;
