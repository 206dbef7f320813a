/** Ranges of numbers that people give and records hold: checked on the way in, and again when a record is read. */

/** Writers of one attempt are 1 to this; they count from 0. */
export const WORLD_SIZE_MAX = 65_536;

const DAY_MS = 24 * 60 * 60_000;

/** Longest span of time that a rule or a grace may name: 100 years. */
export const SPAN_MS_MAX = 36_525 * DAY_MS;

/** Shortest and longest read lease: a second, and 30 days. */
export const LEASE_TTL_MS_MIN = 1000;
export const LEASE_TTL_MS_MAX = 30 * DAY_MS;

/** Last moment that a record may name: the end of the year 9999, in milliseconds since 1970. The first is 0. */
export const TIME_MS_MAX = 253_402_300_799_999;

/** Files of one writer in one checkpoint. With the longest names their lists still fit a receipt. */
export const FILE_COUNT_MAX = 2_000_000;

/** Empty directories of one writer in one checkpoint, and the bytes of UTF-8 that their names take together: its receipt holds them all. */
export const DIRECTORY_COUNT_MAX = 65_536;
export const DIRECTORY_NAMES_BYTES_MAX = 2 * 1024 * 1024;

/** Metrics of one save, and of one checkpoint. */
export const METRIC_COUNT_MAX = 256;

/** UTF-16 units of the name of a metric. */
export const METRIC_NAME_LENGTH_MAX = 256;

/** Names and values of one checkpoint's annotated metadata together, UTF-8 bytes as JSON writes them: entries of the catalog repeat it. */
export const ANNOTATED_METADATA_BYTES_MAX = 4096;

/** UTF-16 units of the name of annotated metadata. */
export const METADATA_NAME_LENGTH_MAX = 256;

/** Names and values of one save's metadata together, UTF-8 bytes as JSON writes them. */
export const METADATA_BYTES_MAX = 1024 * 1024;

/** How often a mirror that follows a run may look: often enough for any trainer, seldom enough for any bill. */
export const WATCH_INTERVAL_MS_MIN = 100;
export const WATCH_INTERVAL_MS_MAX = DAY_MS;
