/**
 * Reads a model that was exported to safetensors, without a library. Format:
 * https://huggingface.co/docs/safetensors#format
 */

import { readFile } from 'node:fs/promises';
import { expectThat } from './checks.ts';
import { DENSE_VARIABLES, DIM, TABLE_NAMES } from './parameters.ts';
import type { ServerLink } from './shared-model.ts';

interface Entry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

/** Opens the file as one server that holds the whole model and cannot learn. */
export async function openExported(path: string): Promise<ServerLink> {
  const tensors = readTensors(await readFile(path));
  const dense = DENSE_VARIABLES.map(({ name }) => new Float32Array(tensors(name, 'F32')));
  const tables = TABLE_NAMES.map((name) => {
    const ids = new BigInt64Array(tensors(`${name}.ids`, 'I64'));
    const values = new Float32Array(tensors(`${name}.values`, 'F32'));
    return { values, rowOf: new Map(Array.from(ids, (id, row) => [Number(id), row])) };
  });
  return {
    pull: async (ids) => ({
      dense,
      rows: tables.map(({ values, rowOf }, table) => {
        const wanted = ids[table] ?? new Int32Array();
        const rows = new Float32Array(wanted.length * DIM);
        for (const [i, id] of wanted.entries()) {
          const row = rowOf.get(id);
          expectThat(row !== undefined, `${path} has no row ${id} of ${TABLE_NAMES[table]}`);
          rows.set(values.subarray(row * DIM, (row + 1) * DIM), i * DIM);
        }
        return rows;
      }),
    }),
    push: () => Promise.reject(new Error('an exported model learns no more')),
  };
}

/**
 * Reads tensors by name and type. Each is a copy, because its bytes in the file may be unaligned.
 */
function readTensors(file: Buffer): (name: string, dtype: string) => ArrayBuffer {
  const headerBytes = Number(file.readBigUInt64LE(0));
  const data = 8 + headerBytes;
  const header = JSON.parse(file.toString('utf8', 8, data)) as Record<string, Entry>;
  return (name, dtype) => {
    const entry = header[name];
    expectThat(
      entry?.dtype === dtype,
      `the exported model has no ${dtype} tensor ${name}: ${Object.keys(header)}`,
    );
    const [start, end] = entry.data_offsets;
    return new Uint8Array(file.subarray(data + start, data + end)).buffer;
  };
}
