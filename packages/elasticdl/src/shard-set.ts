/** The files of one ElasticDL checkpoint, on any kind of storage. */

import type { RandomSource, WriterState } from '@holdfast/core/contract';

export interface ShardFile {
  /** Its file name: `variables-0-of-2.ckpt`. */
  readonly name: string;
  readonly index: number;
  readonly count: number;
  readonly source: RandomSource;
  /** Path of the file if it is on this machine. */
  readonly path?: string | undefined;
}

/** All shards, each once, by index. Opening a set fails if a shard is missing. */
export interface ShardSet extends AsyncDisposable {
  /** For messages: a directory, or a URI with the version. */
  readonly where: string;
  /**
   * By the directory's name or by the catalog; `null` if neither has it. Each file holds a version
   * too.
   */
  readonly version: bigint | null;
  /**
   * Only for a checkpoint of a run: which state of its model each writer said that it saved.
   */
  readonly writers?: readonly WriterState[] | undefined;
  /**
   * Opens another whole version of the same job, to compare with; resolves to `null` if there is
   * none. `undefined`: this set has no way to find one.
   */
  readonly openOther?: ((signal: AbortSignal | undefined) => Promise<ShardSet | null>) | undefined;
  /** At least one. */
  readonly shards: readonly ShardFile[];
  /** Closes every source. Safe to repeat. */
  close(): Promise<void>;
}
