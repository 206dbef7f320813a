/**
 * `metadata.json`, in which `holdfast.torch` records the shapes of whole tensors. The files of the
 * parts say only where each part lies, so they cannot tell that the last part is missing.
 */

import { shown } from '../../contract/checks.ts';
import { CheckpointError } from '../../contract/errors.ts';
import type { FileRecord } from '../../format/index.ts';
import { areCounts, isJsonObject, jsonMemory, parseObject } from '../../plan/bounded-json.ts';
import { type RunContext, transferOptions } from '../run/index.ts';

const FILE_NAME = 'metadata.json';
const FORMAT = 'holdfast-dcp';
const BYTES_MAX = 32 * 1024 * 1024;
/** See `jsonMemory`. */
const MEMORY_MAX = 48 * 1024 * 1024;

/** The shapes of whole tensors, by name. */
export type Shapes = ReadonlyMap<string, readonly number[]>;

export function isShapeRecord({ name }: FileRecord): boolean {
  return name === FILE_NAME;
}

/** Empty if another program wrote the file. `null`: it is larger than what is read. */
export async function readShapes(
  run: RunContext,
  file: FileRecord,
  options: { readonly signal: AbortSignal },
): Promise<Shapes | null> {
  if (file.sizeBytes > BYTES_MAX) return null;
  const chunks: Uint8Array[] = [];
  for await (const chunk of run.transfers.stream(file, transferOptions(options))) chunks.push(chunk);
  const json = Buffer.concat(chunks);
  return jsonMemory(json, MEMORY_MAX) > MEMORY_MAX ? null : shapesIn(parseObject(json));
}

function shapesIn(record: Readonly<Record<string, unknown>> | undefined): Shapes {
  const tensors = record?.['tensors'];
  if (record?.['format'] !== FORMAT || !isJsonObject(tensors)) return new Map();
  const shapes = Object.entries(tensors).map(([name, tensor]) => {
    const shape = isJsonObject(tensor) ? tensor['shape'] : undefined;
    if (areCounts(shape)) return [name, shape] as const;
    const why = `${shown(FILE_NAME)} does not give the shape of tensor ${shown(name)}`;
    throw new CheckpointError('InvalidArgument', why, { context: { name: FILE_NAME } });
  });
  return new Map(shapes);
}
