/**
 * Bytes ⇄ values: keys, records, versions, checksums. Pure: the same arguments give the same
 * result.
 */

export { bytesEqual, fromHex } from './bytes.ts';
export {
  type Blake3,
  blake3,
  crc32c,
  crc32cFallback,
  crc32cImplementation,
  hasBlake3,
  sha256,
  startBlake3,
  toHex,
} from './checksum.ts';
export * from './keys.ts';
export { RECORD_BYTES_MAX, RECORD_BYTES_MAX_OF, recordBytesMax } from './limits.ts';
export {
  checkLogicalName,
  checkLogicalNames,
  LOGICAL_NAME_BYTES_MAX,
  NONCE_HEX_DIGITS_MAX,
} from './logical-name.ts';
export {
  decodeRecord,
  type EncodedRecord,
  encodeRecord,
  FORMAT_MAJOR,
  type RecordPlace,
} from './record.ts';
export { SEQ_MAX } from './record-rules.ts';
export * from './record-types.ts';
export { UINT32_MAX } from './scalars.ts';
export {
  idEquals,
  idText,
  parseVersion,
  type Reference,
  toReference,
  toVersion,
  VERSION_MAX,
} from './version.ts';
