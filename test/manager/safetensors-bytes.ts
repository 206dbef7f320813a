/** Safetensors files, as small as tests need them. */

/** `dtype`: default U8. */
export type Tensors = Record<string, { shape: number[]; data: Uint8Array; dtype?: string }>;

/** A file with these tensors, one after the other. */
export function safetensors(tensors: Tensors, metadata?: Record<string, string>): Uint8Array {
  let at = 0;
  const header: Record<string, unknown> = metadata === undefined ? {} : { __metadata__: metadata };
  for (const [name, { shape, data, dtype = 'U8' }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [at, at + data.byteLength] };
    at += data.byteLength;
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(json.byteLength), true);
  return Buffer.concat([length, json, ...Object.values(tensors).map(({ data }) => data)]);
}

/** The metadata of a header with which PyTorch says which parts of tensors a file holds. */
export function shardingOf(offsets: Record<string, unknown>): Record<string, string> {
  const entries = Object.entries(offsets).map(([name, saved]) => [name, { saved_offsets: saved }]);
  return { DCP_SHARDING_INFO: JSON.stringify(Object.fromEntries(entries)), DCP_VERSION: '1.0' };
}
