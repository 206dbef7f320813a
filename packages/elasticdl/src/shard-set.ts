/** The files of one checkpoint of ElasticDL, wherever they lie. */

import type { RandomSource, WriterState } from '@holdfast/core/contract';

export interface ShardFile {
  /** As it is called there: `variables-0-of-2.ckpt`. */
  readonly name: string;
  readonly index: number;
  readonly count: number;
  readonly source: RandomSource;
  /** Of a file of this machine: where it lies. */
  readonly path?: string | undefined;
}

/** All shards, each once, by index: whoever opens a set refuses one that lacks any. */
export interface ShardSet extends AsyncDisposable {
  /** For messages: a directory, or a URI with the version. */
  readonly where: string;
  /** By the directory's name or by the catalog; `null`: neither tells. Each file holds its own as well. */
  readonly version: bigint | null;
  /** Of a checkpoint of a run: what each writer said of the moment of its bytes. Elsewhere nothing tells. */
  readonly writers?: readonly WriterState[] | undefined;
  /** Opens another whole version of the same job, to compare with; `null`: there is none. Missing: none is known. */
  readonly openOther?: ((signal: AbortSignal | undefined) => Promise<ShardSet | null>) | undefined;
  /** At least one. */
  readonly shards: readonly ShardFile[];
  /** Closes every source. Safe to repeat. */
  close(): Promise<void>;
}
