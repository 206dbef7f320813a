/**
 * A tensor as `torch.save` writes it: a ZIP archive without compression, in which `data.pkl` is a
 * pickle with shape and strides, and `data/0` the bytes
 * (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT). Pure.
 */

import { areCounts } from './bounded-json.ts';
import {
  PickledDictionary,
  PickledName,
  PickledObject,
  PickledReference,
  PickleProblem,
  readPickle,
} from './pickle.ts';
import { dtypeOfStorage, dtypeOfTorch } from './torch-dtypes.ts';

// Signatures and sizes of the records of a ZIP file. `64` marks those for large archives.
export const END = 0x06054b50;
const END_BYTES = 22;
export const END_64_LOCATOR = 0x07064b50;
const END_64_LOCATOR_BYTES = 20;
export const END_64 = 0x06064b50;
export const ENTRY = 0x02014b50;
const ENTRY_BYTES = 46;
export const LOCAL = 0x04034b50;
export const LOCAL_BYTES = 30;
export const EXTRA_64 = 1;
/** In a field of 32 bits: the value is in a field of 64 bits elsewhere. */
export const IN_64 = 0xffffffff;

const REBUILD = 'torch._utils._rebuild_tensor_v2';
const REBUILD_TYPED = 'torch._utils._rebuild_tensor_v3';

/** A file in the archive. */
export interface ArchivedFile {
  readonly name: string;
  readonly sizeBytes: number;
  /** Offset of its local header in the archive. */
  readonly headerOffsetBytes: number;
}

/** The place of the central directory in an archive. It lists the files. */
export interface Directory {
  readonly offsetBytes: number;
  readonly lengthBytes: number;
}

/**
 * Finds the central directory. `tail`: the last bytes of the archive. `archiveBytes`: size of the
 * whole archive. Throws `PickleProblem`.
 */
export function directoryIn(tail: Uint8Array, archiveBytes: number): Directory {
  const view = viewOf(tail);
  const at = tail.byteLength - END_BYTES;
  // PyTorch writes no comment, so the end record is the last.
  if (at < 0 || view.getUint32(at, true) !== END) throw notArchive('its end');
  const [lengthBytes, offsetBytes] = [view.getUint32(at + 12, true), view.getUint32(at + 16, true)];
  const directory =
    offsetBytes === IN_64 ? directory64(view, at, archiveBytes) : { offsetBytes, lengthBytes };
  if (directory.offsetBytes + directory.lengthBytes > archiveBytes)
    throw notArchive('the place of its directory');
  return directory;
}

function directory64(view: DataView, endAt: number, archiveBytes: number): Directory {
  const locator = endAt - END_64_LOCATOR_BYTES;
  if (locator < 0 || view.getUint32(locator, true) !== END_64_LOCATOR) throw notArchive('its 64-bit locator');
  const at = Number(view.getBigUint64(locator + 8, true)) - (archiveBytes - view.byteLength);
  if (!(at >= 0 && at + 56 <= view.byteLength) || view.getUint32(at, true) !== END_64)
    throw notArchive('its 64-bit end');
  return {
    lengthBytes: Number(view.getBigUint64(at + 40, true)),
    offsetBytes: Number(view.getBigUint64(at + 48, true)),
  };
}

/** The entries of a central directory. Throws `PickleProblem`. */
export function filesIn(directory: Uint8Array): ArchivedFile[] {
  const view = viewOf(directory);
  const files: ArchivedFile[] = [];
  for (let at = 0; at < directory.byteLength; ) {
    if (at + ENTRY_BYTES > directory.byteLength || view.getUint32(at, true) !== ENTRY)
      throw notArchive('its directory');
    const [nameBytes, extraBytes, commentBytes] = [28, 30, 32].map((place) =>
      view.getUint16(at + place, true),
    ) as [number, number, number];
    const extraAt = at + ENTRY_BYTES + nameBytes;
    const next = extraAt + extraBytes + commentBytes;
    if (next > directory.byteLength) throw notArchive('its directory');
    if (view.getUint16(at + 10, true) !== 0) throw new PickleProblem('a tensor is compressed');
    const name = Buffer.from(directory.subarray(at + ENTRY_BYTES, extraAt)).toString();
    const sizes = [20, 24, 42].map((place) => view.getUint32(at + place, true)) as [number, number, number];
    files.push({ name, ...sizesOf(sizes, directory.subarray(extraAt, extraAt + extraBytes)) });
    at = next;
  }
  return files;
}

/** Sizes and offsets of 4 GiB and more are in an extra field: size, stored size, offset. */
function sizesOf([stored, plain, header]: readonly [number, number, number], extra: Uint8Array) {
  const view = viewOf(extra);
  let wide = extra.byteLength;
  for (let at = 0; at + 4 <= extra.byteLength; at += 4 + view.getUint16(at + 2, true))
    if (view.getUint16(at, true) === EXTRA_64) {
      wide = at + 4;
      break;
    }
  const next = (value: number) => {
    if (value !== IN_64) return value;
    if (wide + 8 > extra.byteLength) throw notArchive('its 64-bit sizes');
    wide += 8;
    return Number(view.getBigUint64(wide - 8, true));
  };
  const plainBytes = next(plain);
  next(stored);
  return { sizeBytes: plainBytes, headerOffsetBytes: next(header) };
}

/** Bytes from the local header of a file to its first byte. Throws `PickleProblem`. */
export function lengthOfLocal(header: Uint8Array): number {
  const view = viewOf(header);
  if (header.byteLength < LOCAL_BYTES || view.getUint32(0, true) !== LOCAL)
    throw notArchive('the header of a file');
  return LOCAL_BYTES + view.getUint16(26, true) + view.getUint16(28, true);
}

/** How the tensor lies in the bytes of its storage. */
export interface SavedTensor {
  /** Name of the storage, the `0` of `data/0`. */
  readonly storage: string;
  /** As safetensors calls the type. Without such a name: as PyTorch calls it. */
  readonly dtype: string;
  /** In elements. */
  readonly offset: number;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  /** What PyTorch does to the elements when it reads them: `conj` and `neg`. */
  readonly marks: readonly string[];
}

/** Reads `data.pkl`. Throws `PickleProblem`. */
export function savedTensor(pickle: Uint8Array): SavedTensor {
  const value = readPickle(pickle);
  // _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks, marks), or
  // _rebuild_tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype, marks)
  const { of, args } = value instanceof PickledObject ? value : { of: undefined, args: undefined };
  const call = of instanceof PickledName ? of.name : undefined;
  if (call !== REBUILD && call !== REBUILD_TYPED) throw notArchive('a tensor');
  const [reference, offset, shape, strides, , , ...rest]: unknown[] = Array.isArray(args) ? args : [];
  // ('storage', class, key, location, number of elements)
  const id = reference instanceof PickledReference ? reference.id : undefined;
  const [, storageClass, storage]: unknown[] = Array.isArray(id) ? id : [];
  // Otherwise the call names the type, and the storage holds bytes.
  const isTyped = call === REBUILD_TYPED;
  const dtype = dtypeOf(isTyped ? rest[0] : storageClass);
  if (
    typeof storage !== 'string' ||
    dtype === undefined ||
    !areCounts([offset]) ||
    !areCounts(shape) ||
    !areCounts(strides)
  )
    throw notArchive('a tensor');
  const marks = marksIn(rest[isTyped ? 1 : 0]);
  return { storage, dtype, offset: offset as number, shape, strides, marks };
}

/** Names of what is set. A tensor without marks has no dictionary. */
function marksIn(given: unknown): string[] {
  if (given === undefined || given === null) return [];
  if (!(given instanceof PickledDictionary)) throw notArchive('a tensor');
  return [...given.pairs()].flatMap(([name, value]) => (value === false ? [] : String(name)));
}

/** `named`: a type, or the class of a storage. */
function dtypeOf(named: unknown): string | undefined {
  if (!(named instanceof PickledName)) return undefined;
  const name = named.name.replace(/^torch\./, '');
  return name.endsWith('Storage') ? dtypeOfStorage(name) : dtypeOfTorch(name);
}

/** Whether the elements follow one another in C order. */
export function isInOrder({ shape, strides }: SavedTensor): boolean {
  if (shape.includes(0)) return true;
  let expected = 1;
  for (let d = shape.length - 1; d >= 0; d -= 1) {
    if (shape[d] !== 1 && strides[d] !== expected) return false;
    expected *= shape[d] as number;
  }
  return shape.length === strides.length;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function notArchive(what: string): PickleProblem {
  return new PickleProblem(`it does not have ${what} as torch.save writes it`);
}
