/**
 * Ranges of numbers in arguments and records: checked when a caller gives them, and again when a
 * record is read.
 */

/** Maximum number of writers of one attempt; the minimum is 1. Writers count from 0. */
export const WORLD_SIZE_MAX = 65_536;

const DAY_MS = 24 * 60 * 60_000;

/** Maximum span of time in a rule or a grace: 100 years. */
export const SPAN_MS_MAX = 36_525 * DAY_MS;

/** Maximum time over which an overview counts attempts and fences. */
export const HISTORY_MS_MAX = 366 * DAY_MS;

/** Limits of the time to live of a read lease: 1 second and 30 days. */
export const LEASE_TTL_MS_MIN = 1000;
export const LEASE_TTL_MS_MAX = 30 * DAY_MS;

/**
 * Latest time that a record may hold: the end of the year 9999, in milliseconds since 1970. The
 * earliest is 0.
 */
export const TIME_MS_MAX = 253_402_300_799_999;

/**
 * Maximum number of files of one writer in one checkpoint. Even with the longest names, the lists
 * of so many files fit a receipt.
 */
export const FILE_COUNT_MAX = 2_000_000;

/**
 * Maxima for the empty directories of one writer in one checkpoint: their number, and the total
 * UTF-8 bytes of their names. One receipt holds them all.
 */
export const DIRECTORY_COUNT_MAX = 65_536;
export const DIRECTORY_NAMES_BYTES_MAX = 2 * 1024 * 1024;

/** Maximum number of metrics of one save, and of one checkpoint. */
export const METRIC_COUNT_MAX = 256;

/** Maximum length of a metric's name, in UTF-16 units. */
export const METRIC_NAME_LENGTH_MAX = 256;

/**
 * Maximum size of one checkpoint's annotated metadata, names and values together, in UTF-8 bytes as
 * JSON. It is small because entries of the catalog repeat it.
 */
export const ANNOTATED_METADATA_BYTES_MAX = 4096;

/** Maximum length of the name of annotated metadata, in UTF-16 units. */
export const METADATA_NAME_LENGTH_MAX = 256;

/** Maximum size of one save's metadata, names and values together, in UTF-8 bytes as JSON. */
export const METADATA_BYTES_MAX = 1024 * 1024;

/**
 * Limits of the interval at which a mirror may poll a run: often enough for any trainer, rarely
 * enough to limit request costs.
 */
export const WATCH_INTERVAL_MS_MIN = 100;
export const WATCH_INTERVAL_MS_MAX = DAY_MS;
