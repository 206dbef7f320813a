/**
 * Staging: a save copies its sources first, so that the originals may change again during the
 * upload.
 */

import { CheckpointError } from './errors.ts';
import type { RandomSource } from './files.ts';
import type { CallOptions } from './object-store.ts';

/** `sizeBytes`: how many they were when the save was called; default: as many as now. */
export interface BytesInMemory {
  readonly bytes: Uint8Array;
  readonly sizeBytes?: number | undefined;
}

/**
 * The bytes. `SourceChanged`: they are more or fewer than when the save was called. Memory that was
 * transferred or shrunk meanwhile has fewer bytes, or none.
 */
export function unchangedBytes({ bytes, sizeBytes = bytes.byteLength }: BytesInMemory): Uint8Array {
  if (bytes.byteLength === sizeBytes) return bytes;
  const message = `the memory of the source had ${sizeBytes} bytes and now has ${bytes.byteLength}`;
  throw new CheckpointError('SourceChanged', message);
}

/**
 * Bytes of known length that are opened when they are needed, bytes in memory, or a stream of
 * unknown length.
 */
export type StagingSource =
  | { open(): Promise<RandomSource> }
  | BytesInMemory
  | { readonly stream: AsyncIterable<Uint8Array> };

export interface NamedStagingSource {
  /** For messages. */
  readonly name: string;
  readonly source: StagingSource;
}

export interface StagedCopy {
  readonly sizeBytes: number;
  /**
   * May be opened repeatedly until the stage is released. Has `mode` and `mtimeMs` of the original,
   * if the original has them.
   */
  open(): Promise<RandomSource>;
}

/** The copies of one save. */
export interface Stage {
  /** In the order of the sources. */
  readonly copies: readonly StagedCopy[];
  /** Frees the space. Call it when no copy is open any more. Safe to repeat, and never throws. */
  release(): Promise<void>;
}

export interface Staging {
  /**
   * Copies all sources, each to its end. Resolves when no source will be read again. If it fails,
   * no copy remains. `StorageFull`: there is not enough space. `InvalidArgument`: another stage is
   * still held and must be released first. Otherwise the errors of the sources.
   */
  stage(sources: readonly NamedStagingSource[], options?: CallOptions): Promise<Stage>;
}
