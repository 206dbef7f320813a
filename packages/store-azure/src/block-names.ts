/**
 * Names of blocks: the id of their upload (32 hexadecimal digits), the kind of the block (7
 * characters), and a 32-bit number in 8 hexadecimal digits. Azure requires all block names of a
 * blob to have one length, at most 64 bytes.
 *
 * The name of a part contains its CRC32C. So a part with other bytes never replaces it, and a
 * process that resumes an upload knows which parts match its data.
 */

const BEGUN = 'begun--';
const ABORTED = 'aborted';
const INDEX_LENGTH = BEGUN.length;
const NAME = /^([0-9a-f]{32})(\d{7}|begun--|aborted)([0-9a-f]{8})$/;

export type BlockName = { readonly uploadId: string } & (
  | { readonly kind: 'part'; readonly index: number; readonly crc32c: number }
  /** Marks that the upload exists. */
  | { readonly kind: 'begun'; readonly beganAtMs: number }
  /** Marks that the upload is aborted. */
  | { readonly kind: 'aborted' }
);

export function blockName(block: BlockName): string {
  const { uploadId, kind } = block;
  if (kind === 'aborted') return uploadId + ABORTED + hex(0);
  if (kind === 'begun') return uploadId + BEGUN + hex(Math.floor(block.beganAtMs / 1000));
  return uploadId + String(block.index).padStart(INDEX_LENGTH, '0') + hex(block.crc32c);
}

/** Null for a block name that is not one of our uploads. */
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
