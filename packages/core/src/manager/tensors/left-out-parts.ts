/**
 * Parts of tensors in files that an export leaves out. PyTorch's sharded safetensors files say only
 * where each part lies, so the size of a whole tensor shows only in the files of all its parts.
 */

import { atATime } from '../../contract/at-a-time.ts';
import type { FileRecord } from '../../format/index.ts';
import type { FoundTensor } from '../../plan/joined-tensors.ts';
import type { HeaderReader } from './scan-tensors.ts';
import type { Shapes } from './shape-record.ts';

/** Each header waits for the store. */
const FILES_AT_ONCE = 16;

type Part = Pick<FoundTensor, 'shape' | 'offsets'>;

interface Chosen {
  readonly tensors: readonly FoundTensor[];
  /** Shapes of whole tensors that are known already. */
  readonly shapes: Shapes;
  readonly signal: AbortSignal;
}

/**
 * Adds the shapes that tensors in parts have with the parts of the files left out. Only files in
 * the directories of those parts count: one save writes into one directory. Reads no header if all
 * shapes are known. A file that is no safetensors file holds no part.
 */
export async function shapesWithLeftOut(
  headers: HeaderReader,
  leftOut: readonly FileRecord[],
  { tensors, shapes, signal }: Chosen,
): Promise<Shapes> {
  const partial = tensors.filter(({ name, offsets }) => offsets !== null && !shapes.has(name));
  const directories = new Set(partial.map(({ file }) => directoryOf(file)));
  const beside = leftOut.filter(({ name }) => directories.has(directoryOf(name)));
  if (beside.length === 0) return shapes;
  const places = new Set(partial.map(placeOf));
  const ends = new Map<string, readonly number[]>();
  const add = (name: string, part: Part) => ends.set(name, fartherEnd(ends.get(name), part));
  for (const part of partial) add(part.name, part);
  await atATime(beside, FILES_AT_ONCE, async (file) => {
    const { scan } = await headers.read(file, { signal });
    if (scan.problem !== undefined) return;
    for (const [name, part] of scan.tensors)
      if (part.offsets !== null && places.has(placeOf({ file: file.name, name }))) add(name, part);
  });
  return new Map([...shapes, ...ends]);
}

/** The end of all parts so far. Parts of another rank do not belong to the tensor. */
function fartherEnd(end: readonly number[] | undefined, { shape, offsets }: Part): readonly number[] {
  if (end && end.length !== shape.length) return end;
  return shape.map((side, d) => Math.max(side + (offsets?.[d] ?? 0), end?.[d] ?? 0));
}

function placeOf({ file, name }: Pick<FoundTensor, 'file' | 'name'>): string {
  return JSON.stringify([directoryOf(file), name]);
}

/** With a final slash. Empty for a file at the top of the checkpoint. */
function directoryOf(name: string): string {
  return name.slice(0, name.lastIndexOf('/') + 1);
}
