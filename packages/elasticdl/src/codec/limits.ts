/** What is refused in a file that is read, and so never written: each stands for memory that a hostile file would take. */

/** Of a name in UTF-8. */
export const NAME_BYTES_MAX = 65_536;
/** Of an initializer in UTF-8, and of all else that is short. */
export const SHORT_BYTES_MAX = 4096;
/** TensorFlow's own limit for the dimensions of a tensor. */
export const RANK_MAX = 254;
