/** Where a save copies what it is to send, so that the originals may change again while the copies are on their way. */

import type { RandomSource } from './files.ts';
import type { CallOptions } from './object-store.ts';

/** Bytes of known length that are opened when their turn comes, bytes in memory, or a stream of unknown length. */
export type StagingSource =
  | { open(): Promise<RandomSource> }
  | { readonly bytes: Uint8Array }
  | { readonly stream: AsyncIterable<Uint8Array> };

export interface NamedStagingSource {
  /** For messages. */
  readonly name: string;
  readonly source: StagingSource;
}

export interface StagedCopy {
  readonly sizeBytes: number;
  /** May be opened again and again, until the stage is released. Has `mode` and `mtimeMs` of the original, where that has them. */
  open(): Promise<RandomSource>;
}

/** The copies of one save. */
export interface Stage {
  /** In the order of the sources. */
  readonly copies: readonly StagedCopy[];
  /** Gives the room back; nothing of it is open any more. Safe to repeat, and never throws. */
  release(): Promise<void>;
}

export interface Staging {
  /**
   * Copies all sources, each to its end. Resolves when none of them will be read again. What fails leaves nothing behind.
   * `StorageFull`: there is not enough room. `InvalidArgument`: a stage is still held that is to be released first. Otherwise the errors of the
   * sources.
   */
  stage(sources: readonly NamedStagingSource[], options?: CallOptions): Promise<Stage>;
}
