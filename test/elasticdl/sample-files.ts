/** Files of small models, as ElasticDL writes them. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { encodeShard, type ModelShard, shardFile, stringToId, type WrittenForm } from '@holdfast/elasticdl';

export interface Sample {
  /** The version number in the files. */
  readonly version: number;
  readonly count: number;
  readonly form?: WrittenForm | undefined;
  readonly dim?: number | undefined;
}

const DENSE = ['dense/kernel:0', 'dense/bias:0', 'v0'];
const ROWS_PER_SHARD = 5;

/** The files by name. Each shard has its share of three variables and of one table. */
export function sampleFiles(sample: Sample): Record<string, Uint8Array> {
  const { count, form } = sample;
  return Object.fromEntries(
    Array.from({ length: count }, (_, index) => {
      const encoded = encodeShard(sampleShard(sample, index), form);
      return [shardFile(index, count), new Uint8Array(Buffer.concat([...encoded.chunks()]))];
    }),
  );
}

/** Values depend on version and row, so that all versions differ. */
function sampleShard({ version, count, dim = 2, form }: Sample, index: number): ModelShard {
  const names = DENSE.filter((name) => stringToId(name, count) === index);
  const ids = BigInt64Array.from({ length: ROWS_PER_SHARD }, (_, row) => BigInt(index + row * count));
  const rows = Float32Array.from({ length: ROWS_PER_SHARD * dim }, (_, at) => version + at);
  return {
    version,
    infos: [{ name: 'embedding', dim, initializer: 'uniform', dtype: form === 'S4' ? null : 'float32' }],
    dense: new Map(names.map((name) => [name, { dtype: 'float32', shape: [2], data: bytes([version, 1]) }])),
    tables: new Map([['embedding', { dtype: 'float32', dim, ids, values: new Uint8Array(rows.buffer) }]]),
  };
}

const bytes = (values: number[]) => new Uint8Array(Float32Array.from(values).buffer);

/** Creates the directory and writes each file into it. */
export async function writeFiles(directory: string, files: Readonly<Record<string, Uint8Array>>) {
  await mkdir(directory, { recursive: true });
  for (const [name, data] of Object.entries(files)) await writeFile(join(directory, name), data);
}
