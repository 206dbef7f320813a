/** Tensors in the `.distcp` files of a checkpoint, which a `.metadata` beside them describes. */

import { shown } from '../../contract/checks.ts';
import { CheckpointError } from '../../contract/errors.ts';
import type { RandomSource } from '../../contract/files.ts';
import type { FileRecord } from '../../format/index.ts';
import { type ArchivedPart, readDistcp } from '../../plan/distcp.ts';
import { PickleProblem } from '../../plan/pickle.ts';
import {
  type ArchivedFile,
  directoryIn,
  filesIn,
  isInOrder,
  LOCAL_BYTES,
  lengthOfLocal,
  type SavedTensor,
  savedTensor,
} from '../../plan/torch-archive.ts';
import { torchType } from '../../plan/torch-dtypes.ts';
import { type RunContext, transferOptions } from '../run/index.ts';

const METADATA = '.metadata';
/** The file is parsed in memory. The memory of its values is limited too. */
const METADATA_BYTES_MAX = 16 * 1024 * 1024;
/**
 * Bytes read from the end of an archive, and the most read of its directory and of `data.pkl`. With
 * one tensor these two have some 700 and 200 bytes.
 */
const TAIL_BYTES = 4096;
/** PyTorch writes `little` or `big` there. Its older versions write no such file. */
const BYTE_ORDER = '/byteorder';
const BYTE_ORDER_BYTES_MAX = 16;

export function isDistcp(name: string): boolean {
  return name.endsWith('.distcp');
}

/** Whether the file describes `.distcp` files beside it. */
export function isDistcpMetadata(name: string): boolean {
  return name.slice(directoryOf(name).length) === METADATA;
}

export interface DescribedParts {
  /** `file` is the name in the checkpoint, not the one relative to the `.metadata`. */
  readonly parts: readonly ArchivedPart[];
  /** Why the `.metadata` could not be read. There are no parts then. */
  readonly problem?: string | undefined;
  readonly bytesRead: number;
}

/** Reads a `.metadata` file. */
export async function describedParts(
  run: RunContext,
  { name, ...file }: FileRecord,
  options: { readonly signal: AbortSignal },
): Promise<DescribedParts> {
  const { sizeBytes } = file;
  if (sizeBytes > METADATA_BYTES_MAX) {
    const problem = `it has ${sizeBytes} bytes; at most ${METADATA_BYTES_MAX} are read`;
    return { parts: [], problem, bytesRead: 0 };
  }
  const pickle = new Uint8Array(sizeBytes);
  let bytesRead = 0;
  for await (const chunk of run.transfers.stream({ name, ...file }, transferOptions(options))) {
    pickle.set(chunk, bytesRead);
    bytesRead += chunk.byteLength;
  }
  try {
    return { parts: readDistcp(pickle, directoryOf(name)), bytesRead };
  } catch (error) {
    if (error instanceof PickleProblem) return { parts: [], problem: error.message, bytesRead };
    throw error;
  }
}

/**
 * Offset in the file of the first byte of a part. Reads both ends of the part's archive.
 * `InvalidArgument`: the archive has not the form that `torch.save` writes, or another shape or
 * type than the `.metadata` say. `Unsupported`: the elements are not in C order, not little-endian,
 * or marked as conjugated or negated.
 */
export async function placeOfPart(source: RandomSource, part: ArchivedPart): Promise<number> {
  try {
    return await findPart(source, part);
  } catch (error) {
    if (!(error instanceof PickleProblem)) throw error;
    const why = `${nameOf(part)} is not read: ${error.message}`;
    throw new CheckpointError('InvalidArgument', why, { context: { name: part.file } });
  }
}

async function findPart(source: RandomSource, part: ArchivedPart): Promise<number> {
  const { offsetBytes, lengthBytes } = part.archive;
  if (offsetBytes + lengthBytes > source.sizeBytes) throw new PickleProblem('the file ends before it');
  const read = (at: number, count: number) =>
    readRange(source, offsetBytes + at, Math.min(count, lengthBytes - at));
  const tailAt = Math.max(lengthBytes - TAIL_BYTES, 0);
  const tail = await read(tailAt, TAIL_BYTES);
  const directory = directoryIn(tail, lengthBytes);
  const isInTail = directory.offsetBytes >= tailAt;
  const files = filesIn(
    isInTail
      ? tail.subarray(directory.offsetBytes - tailAt).subarray(0, directory.lengthBytes)
      : await read(directory.offsetBytes, Math.min(directory.lengthBytes, TAIL_BYTES)),
  );
  const find = (name: string) => {
    const file = files.find((each) => each.name.endsWith(name));
    if (file) return file;
    throw new PickleProblem(`its archive has no ${name.slice(1)}`);
  };
  const dataOf = async ({ headerOffsetBytes }: { readonly headerOffsetBytes: number }) =>
    headerOffsetBytes + lengthOfLocal(await read(headerOffsetBytes, LOCAL_BYTES));
  const contentOf = async (file: ArchivedFile, bytesMax: number) => {
    if (file.sizeBytes <= bytesMax) return await read(await dataOf(file), file.sizeBytes);
    throw new PickleProblem(`its ${file.name.replace(/^.*\//, '')} has ${file.sizeBytes} bytes`);
  };
  const order = files.find(({ name }) => name.endsWith(BYTE_ORDER));
  if (order) assertLittle(part, await contentOf(order, BYTE_ORDER_BYTES_MAX));
  const tensor = savedTensor(await contentOf(find('/data.pkl'), TAIL_BYTES));
  assertAsDescribed(part, tensor);
  const data = find(`/data/${tensor.storage}`);
  const count = part.shape.reduce((product, side) => product * side, 1);
  const itemBytes = count === 0 ? 0 : part.sizeBytes / count;
  const startBytes = tensor.offset * itemBytes;
  if (startBytes + part.sizeBytes > data.sizeBytes) throw new PickleProblem('its archive has too few bytes');
  return offsetBytes + (await dataOf(data)) + startBytes;
}

function assertLittle(part: ArchivedPart, byteOrder: Uint8Array): void {
  const order = Buffer.from(byteOrder).toString();
  if (order === 'little') return;
  const why = `${nameOf(part)} has the byte order ${shown(order)}; only "little" is read`;
  throw new CheckpointError('Unsupported', why, { context: { name: part.file } });
}

function assertAsDescribed(part: ArchivedPart, tensor: SavedTensor): void {
  if (String(tensor.shape) !== String(part.shape))
    throw new PickleProblem(`it has the shape [${tensor.shape}], and the metadata say [${part.shape}]`);
  // PyTorch names the type and its storage differently, which counts only for types that are known.
  const isKnown = [tensor.dtype, part.dtype].some((dtype) => torchType(dtype));
  if (isKnown && tensor.dtype !== part.dtype)
    throw new PickleProblem(`it has the type ${shown(tensor.dtype)}, and the metadata say ${part.dtype}`);
  const [mark] = tensor.marks;
  if (mark !== undefined) throw notRead(part, `has the mark ${shown(mark)}`, 'elements without marks');
  if (!isInOrder(tensor)) throw notRead(part, `has the strides [${tensor.strides}]`, 'elements in C order');
}

function notRead(part: ArchivedPart, what: string, whichAre: string): CheckpointError {
  const message = `${nameOf(part)} ${what}; only ${whichAre} are read`;
  const advice = ['save the tensor as .contiguous().resolve_conj().resolve_neg(), or choose other tensors'];
  return new CheckpointError('Unsupported', message, { context: { name: part.file, advice } });
}

function nameOf({ name, offsets, file }: ArchivedPart): string {
  return `part [${offsets}] of tensor ${shown(name)} in ${shown(file)}`;
}

async function readRange(
  source: RandomSource,
  offsetBytes: number,
  lengthBytes: number,
): Promise<Uint8Array> {
  if (lengthBytes < 0) throw new PickleProblem('its archive names a place behind its end');
  const bytes = new Uint8Array(lengthBytes);
  await source.readInto(offsetBytes, bytes);
  return bytes;
}

/** Directory of a file, with a final slash. Empty for a file at the top of the checkpoint. */
function directoryOf(name: string): string {
  return name.slice(0, name.lastIndexOf('/') + 1);
}
