/**
 * Destinations of an upload: objects of the store, or nowhere if only checksums are wanted.
 */

import type { PooledBuffer } from './buffer-pool.ts';

/** Bytes in memory, with their checksum. `buffer` owns the memory; absent if there are no bytes. */
export interface Piece {
  readonly bytes: Uint8Array;
  readonly crc32c: number;
  readonly buffer?: PooledBuffer | undefined;
}

/** For an empty file, or past the end of a stream. */
export const NOTHING: Piece = { bytes: new Uint8Array(0), crc32c: 0 };

/** All parts together. */
export interface WholeFile {
  readonly sizeBytes: number;
  readonly crc32c: number;
}

export interface Destination {
  /**
   * Waits until `sizeBytes` may be sent; never rejects. Call it before reading the bytes and before
   * taking a turn: a waiting file then holds neither memory nor a turn, and waits for one part at a
   * time.
   */
  admit(sizeBytes: number): Promise<void>;
  /** The bytes were admitted but are not sent. */
  giveBack(sizeBytes: number): void;
  /** Sends a whole file. Resolves to its key when it is durable. */
  sendWhole(piece: Piece): Promise<string>;
  begin(partSizeBytes: number, sizeBytes?: number): Promise<PartsDestination>;
}

/** One try to send a file in parts. */
export interface PartsDestination {
  readonly key: string;
  sendPart(index: number, piece: Piece): Promise<void>;
  /**
   * When it resolves, the object is there and has this size. After a temporary error the file must
   * be sent again.
   */
  complete(whole: WholeFile): Promise<void>;
  /** Abandons the try. Takes seconds at most, never throws. */
  abort(): Promise<void>;
}

export const nowhere: Destination = {
  admit: () => Promise.resolve(),
  giveBack: () => undefined,
  sendWhole: async () => '',
  begin: async () => ({
    key: '',
    sendPart: () => Promise.resolve(),
    complete: () => Promise.resolve(),
    abort: () => Promise.resolve(),
  }),
};
