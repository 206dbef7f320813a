/** A run with one checkpoint of safetensors files, whose tensors are holes in the files. */

import { closeSync, ftruncateSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { crc32c, layOutSafetensors } from '@holdfast/core';
import { crc32cCombine } from '@holdfast/core/internal/contract/crc32c-combine';
import { type FileRecord, payloadKey } from '@holdfast/core/internal/format/index';
import { openStore } from '@holdfast/stores';
import { bigEndian, fillRun } from './fill-run.ts';

const MIB = 2 ** 20;
const PART_BYTES = 8 * MIB;
const ZEROS = new Uint8Array(PART_BYTES);
const ITEM_BYTES = 2;

export interface HollowModel {
  readonly files: number;
  readonly fileBytes: number;
  readonly tensorsInFile: number;
}

/** Writes version 1 of the run in `directory`. Returns its URI. */
export async function writeHollowModel(directory: string, model: HollowModel): Promise<string> {
  const uri = pathToFileURL(directory).href;
  const store = await openStore(uri, {});
  const filesOf = async (id: Parameters<typeof keyOf>[0]) =>
    Array.from({ length: model.files }, (_, at) => writeFile(directory, keyOf(id, at), model));
  await fillRun(store, 1, { filesOf });
  await store.close();
  return uri;
}

type Id = Parameters<typeof payloadKey>[0]['id'];

function keyOf(id: Id, at: number) {
  const name = `model-${String(at).padStart(5, '0')}.safetensors`;
  return { name, key: payloadKey({ id, writer: 0, incarnation: 0, nonce: '0f', name }), at };
}

function writeFile(
  directory: string,
  { name, key, at }: ReturnType<typeof keyOf>,
  { fileBytes, tensorsInFile }: HollowModel,
): FileRecord {
  const rows = Math.floor(fileBytes / tensorsInFile / 4096 / ITEM_BYTES);
  const tensors = Array.from({ length: tensorsInFile }, (_, index) => ({
    name: `model.layers.${at}.part.${index}.weight`,
    dtype: 'BF16',
    shape: [rows, 4096],
    sizeBytes: rows * 4096 * ITEM_BYTES,
    what: name,
  }));
  const { header, sizeBytes } = layOutSafetensors(tensors, { format: 'pt' });
  const path = join(directory, key);
  mkdirSync(dirname(path), { recursive: true });
  const file = openSync(path, 'w');
  writeSync(file, header);
  ftruncateSync(file, sizeBytes);
  closeSync(file);
  return { name, key, ...sumsOf(header, sizeBytes), blake3: new Uint8Array(0), mode: 0, mtimeMs: 0 };
}

/** The checksums of a file with a header and zeros behind it. */
function sumsOf(header: Uint8Array, sizeBytes: number) {
  if (header.byteLength > PART_BYTES) throw new Error('the header is longer than a part');
  const first = Buffer.alloc(Math.min(PART_BYTES, sizeBytes));
  first.set(header);
  const ofZeros = crc32c(ZEROS);
  const sums = [crc32c(first)];
  let whole = sums[0] as number;
  for (let start = PART_BYTES; start < sizeBytes; start += PART_BYTES) {
    const bytes = Math.min(PART_BYTES, sizeBytes - start);
    const sum = bytes === PART_BYTES ? ofZeros : crc32c(ZEROS.subarray(0, bytes));
    sums.push(sum);
    whole = crc32cCombine(whole, sum, bytes);
  }
  return { sizeBytes, crc32c: whole, partSizeBytes: PART_BYTES, partCrc32c: bigEndian(sums) };
}
