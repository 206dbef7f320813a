/** Options of all calls that read shards, with their rules. */

import {
  callback,
  oneOf,
  optional,
  type ProgressEvent,
  type Rules,
  text,
  wholeNumber,
} from '@holdfast/core/contract';
import type { DtypeNumbering } from './layout.ts';
import { SIGNAL } from './rules.ts';

const BUFFER_BYTES_MIN = 1024 * 1024;

export interface CheckOptions {
  /**
   * See `readShardLayout`: used only if the files do not show it. If it is needed and absent, the
   * error says so.
   */
  readonly numbering?: DtypeNumbering | undefined;
  readonly signal?: AbortSignal | undefined;
  /**
   * Called for each sign that a file was cut off between two fields, or that two files have the
   * same variable or row: see `findSuspicions`. Default: no search for such signs.
   */
  readonly onSuspicion?: ((reason: string) => void) | undefined;
}

export interface ReadingOptions extends CheckOptions {
  /**
   * Memory for ids and rows, in bytes: 1 MiB or more, default 256 MiB. About 2 MiB more are used,
   * and the memory for the structure of the files: names and shapes are held.
   */
  readonly bufferBytes?: number | undefined;
  /**
   * Directory for the file with the ids that do not fit into memory; default: the directory for
   * temporary files.
   */
  readonly scratchDirectory?: string | undefined;
  /**
   * `planned` once it is known what moves, by the files that are read; then `bytes` of these files.
   */
  readonly onProgress?: ((event: ProgressEvent) => void) | undefined;
}

export const CHECK: Rules<CheckOptions> = {
  ...SIGNAL,
  numbering: optional(oneOf('elasticdl', 'tensorflow')),
  onSuspicion: optional(callback),
};

export const READING: Rules<ReadingOptions> = {
  ...CHECK,
  bufferBytes: optional(wholeNumber(BUFFER_BYTES_MIN)),
  scratchDirectory: optional(text),
  onProgress: optional(callback),
};
