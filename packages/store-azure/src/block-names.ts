/**
 * Names of blocks: the id of their upload (32 hexadecimal digits), what the block is (7 signs), and
 * a number of 32 bits in 8 hexadecimal digits. All names of a blob's blocks have to be of one
 * length, at most 64 bytes.
 *
 * A part has its CRC32C in its name, so parts with other bytes never take its place, and whoever
 * goes on with an upload can tell which of the parts that are there it would have sent.
 */

const BEGUN = 'begun--';
const ABORTED = 'aborted';
const INDEX_LENGTH = BEGUN.length;
const NAME = /^([0-9a-f]{32})(\d{7}|begun--|aborted)([0-9a-f]{8})$/;

export type BlockName = { readonly uploadId: string } & (
  | { readonly kind: 'part'; readonly index: number; readonly crc32c: number }
  /** Says that the upload is there. */
  | { readonly kind: 'begun'; readonly beganAtMs: number }
  /** Says that nothing comes of it any more. */
  | { readonly kind: 'aborted' }
);

export function blockName(block: BlockName): string {
  const { uploadId, kind } = block;
  if (kind === 'aborted') return uploadId + ABORTED + hex(0);
  if (kind === 'begun') return uploadId + BEGUN + hex(Math.floor(block.beganAtMs / 1000));
  return uploadId + String(block.index).padStart(INDEX_LENGTH, '0') + hex(block.crc32c);
}

/** Null for the name of a block that no upload of ours has sent. */
export function parseBlockName(name: string): BlockName | null {
  const [, uploadId, what, digits = ''] = NAME.exec(name) ?? [];
  if (uploadId === undefined) return null;
  const number = Number.parseInt(digits, 16);
  if (what === ABORTED) return { uploadId, kind: 'aborted' };
  if (what === BEGUN) return { uploadId, kind: 'begun', beganAtMs: number * 1000 };
  return { uploadId, kind: 'part', index: Number(what), crc32c: number };
}

function hex(number: number): string {
  return (number >>> 0).toString(16).padStart(8, '0');
}
