/** Reads files in the safetensors format without a library. */

import { readFile } from 'node:fs/promises';

export interface ReadTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Buffer;
}

export interface ReadSafetensors {
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: ReadonlyMap<string, ReadTensor>;
}

export async function readSafetensors(path: string): Promise<ReadSafetensors> {
  const file = await readFile(path);
  const dataAt = 8 + Number(file.readBigUInt64LE());
  const header: [string, unknown][] = Object.entries(JSON.parse(file.toString('utf8', 8, dataAt)));
  const tensors = new Map<string, ReadTensor>();
  let metadata = {};
  for (const [name, value] of header) {
    if (name === '__metadata__') {
      metadata = value as Record<string, string>;
      continue;
    }
    const { dtype, shape, data_offsets } = value as Omit<ReadTensor, 'bytes'> & {
      data_offsets: [number, number];
    };
    const [start, end] = data_offsets;
    tensors.set(name, { dtype, shape, bytes: file.subarray(dataAt + start, dataAt + end) });
  }
  return { metadata, tensors };
}
