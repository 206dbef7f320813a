/** Joins the parts of tensors that several ranks have saved. Pure. */

import { shown } from '../contract/checks.ts';
import { CheckpointError } from '../contract/errors.ts';
import { compareUtf8 } from '../contract/object-key.ts';
import { elementBits } from './safetensors-dtypes.ts';

/** A tensor in a file, or a part of one. */
export interface FoundTensor {
  /** Name of the file. */
  readonly file: string;
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly sizeBytes: number;
  /** Place of the part in the whole; `null`: the file says nothing of parts. */
  readonly offsets: readonly number[] | null;
  readonly fileOffsetBytes: number;
}

/** A box of elements in C order. */
export interface Box {
  readonly offsets: readonly number[];
  readonly shape: readonly number[];
}

export interface TensorPart extends Box {
  readonly file: string;
  readonly fileOffsetBytes: number;
}

export interface JoinedTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly sizeBytes: number;
  /** The elements as the parts count them. A tensor in one part is one row of bytes. */
  readonly grid: { readonly shape: readonly number[]; readonly elementBytes: number };
  /** They cover the grid, each element once. */
  readonly parts: readonly TensorPart[];
}

/**
 * Returns the tensors sorted by name. `wholeShapes`: as a record of the checkpoint says, by name.
 *
 * `InvalidArgument`: two files have a tensor of one name and do not say which parts they are, or
 * parts do not fit together, or do not make the whole. `Unsupported`: the elements of parts are no
 * whole bytes.
 */
export function joinTensors(
  found: readonly FoundTensor[],
  wholeShapes: ReadonlyMap<string, readonly number[]>,
): JoinedTensor[] {
  return [...Map.groupBy(found, ({ name }) => name)]
    .map(([name, parts]) => joined(parts as [FoundTensor, ...FoundTensor[]], wholeShapes.get(name)))
    .sort((a, b) => compareUtf8(a.name, b.name));
}

function joined(all: [FoundTensor, ...FoundTensor[]], said: readonly number[] | undefined): JoinedTensor {
  const parts = withoutCopies(all);
  const [first] = parts;
  const { name, dtype } = first;
  const shape = said ?? endsOf(parts);
  assertFitting(parts, shape);
  assertWhole(name, parts, shape);
  if (parts.length === 1) return inOnePart(first, shape);
  const bits = elementBits(dtype);
  if (bits === undefined || bits % 8 !== 0)
    throw new CheckpointError(
      'Unsupported',
      `tensor ${shown(name)} of type ${dtype} is in ${parts.length} parts, and only elements of whole bytes can be joined`,
    );
  const elementBytes = bits / 8;
  return {
    name,
    dtype,
    shape,
    sizeBytes: countOf(shape) * elementBytes,
    grid: { shape, elementBytes },
    parts: parts.map((part) => ({ ...part, offsets: placeOf(part) })),
  };
}

function inOnePart({ name, dtype, file, sizeBytes, fileOffsetBytes }: FoundTensor, shape: readonly number[]) {
  const grid = { shape: [sizeBytes], elementBytes: 1 };
  const part = { file, fileOffsetBytes, offsets: [0], shape: [sizeBytes] };
  return { name, dtype, shape, sizeBytes, grid, parts: [part] };
}

/** Ranks that hold the same part have each saved it. */
function withoutCopies(parts: [FoundTensor, ...FoundTensor[]]): [FoundTensor, ...FoundTensor[]] {
  const [first, second] = parts;
  if (second && parts.some(({ offsets }) => offsets === null)) {
    throw new CheckpointError(
      'InvalidArgument',
      `tensor ${shown(first.name)} is in ${shown(first.file)} and in ${shown(second.file)}, which do not say that they hold parts of it; choose one of the files`,
      { context: { name: second.file } },
    );
  }
  const byPlace = new Map(parts.map((part) => [JSON.stringify([part.offsets, part.shape]), part]));
  return [...byPlace.values()] as [FoundTensor, ...FoundTensor[]];
}

function placeOf({ offsets, shape }: FoundTensor): readonly number[] {
  return offsets ?? shape.map(() => 0);
}

function endsOf(parts: readonly FoundTensor[]): number[] {
  const ends = parts.map((part) => part.shape.map((side, d) => side + (placeOf(part)[d] as number)));
  return (ends[0] as number[]).map((_, d) => Math.max(...ends.map((end) => end[d] ?? 0)));
}

function countOf(shape: readonly number[]): number {
  return shape.reduce((product, side) => product * side, 1);
}

function assertFitting([first, ...others]: [FoundTensor, ...FoundTensor[]], shape: readonly number[]): void {
  const different = others.find(
    (part) => part.dtype !== first.dtype || part.shape.length !== first.shape.length,
  );
  if (different) throw notWhole(first.name, `${textOf(first)} and ${textOf(different)} do not fit together`);
  const outside = [first, ...others].find(
    (part) =>
      part.shape.length !== shape.length ||
      part.shape.some((side, d) => side + (placeOf(part)[d] as number) > (shape[d] as number)),
  );
  if (outside) throw notWhole(first.name, `${textOf(outside)} lies outside of its shape [${shape}]`);
}

function textOf(part: FoundTensor): string {
  return `${part.dtype} [${part.shape}] at [${placeOf(part)}] in ${shown(part.file)}`;
}

/** Parts that do not overlap and have as many elements as the whole cover it. */
function assertWhole(name: string, parts: readonly FoundTensor[], shape: readonly number[]): void {
  const filled = parts.filter((part) => !part.shape.includes(0));
  const sorted = filled.toSorted((a, b) => (placeOf(a)[0] ?? 0) - (placeOf(b)[0] ?? 0));
  let open: FoundTensor[] = [];
  for (const part of sorted) {
    const start = placeOf(part)[0] ?? 0;
    open = open.filter((other) => (placeOf(other)[0] ?? 0) + (other.shape[0] ?? 1) > start);
    const other = open.find((each) => overlap(each, part));
    if (other) throw notWhole(name, `${textOf(other)} and ${textOf(part)} overlap`);
    open.push(part);
  }
  const there = filled.reduce((sum, part) => sum + countOf(part.shape), 0);
  const wanted = countOf(shape);
  if (there !== wanted)
    throw notWhole(name, `its parts have ${there} of the ${wanted} elements of [${shape}]`);
}

function overlap(a: FoundTensor, b: FoundTensor): boolean {
  const [placeA, placeB] = [placeOf(a), placeOf(b)];
  return a.shape.every((side, d) => {
    const [startA, startB] = [placeA[d] as number, placeB[d] as number];
    return startA < startB + (b.shape[d] as number) && startB < startA + side;
  });
}

function notWhole(name: string, why: string): CheckpointError {
  return new CheckpointError('InvalidArgument', `tensor ${shown(name)} is not whole: ${why}`);
}
