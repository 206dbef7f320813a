/**
 * The bytes around the elements of a tensor that `torch.load` reads: the ZIP archive that
 * `torch.save` writes without checksums, with the elements as its last file. Pure.
 *
 * All sizes and offsets have 64 bits, also those of small tensors, so that there is one form.
 */

import { called, named, reference, tuple, writePickle } from './pickle-writer.ts';
import { END, END_64, END_64_LOCATOR, ENTRY, EXTRA_64, IN_64, LOCAL } from './torch-archive.ts';
import type { TorchType } from './torch-dtypes.ts';

const IN_16 = 0xffff;
/** The version of the ZIP format that has 64-bit sizes. */
const VERSION = 45;
/** Names are UTF-8. */
const FLAGS = 0x0800;
const STORAGE = '0';

export interface TensorInArchive {
  readonly type: TorchType;
  readonly shape: readonly number[];
  readonly sizeBytes: number;
}

export interface ArchiveFrame {
  /** Before the elements. */
  readonly head: Uint8Array<ArrayBuffer>;
  /** Behind the elements. */
  readonly tail: Uint8Array<ArrayBuffer>;
}

export function frameOfTensor(tensor: TensorInArchive): ArchiveFrame {
  const small: readonly (readonly [name: string, bytes: Uint8Array])[] = [
    ['data.pkl', pickleOf(tensor)],
    ['byteorder', Buffer.from('little')],
    ['version', Buffer.from('3\n')],
  ];
  const head: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let at = 0;
  const add = (name: string, sizeBytes: number, bytes: Uint8Array) => {
    const file = { name: Buffer.from(`archive/${name}`), sizeBytes };
    directory.push(entryOf(file, at));
    const header = localOf(file);
    head.push(header, bytes);
    at += header.byteLength + sizeBytes;
  };
  for (const [name, bytes] of small) add(name, bytes.byteLength, bytes);
  add(`data/${STORAGE}`, tensor.sizeBytes, new Uint8Array(0));
  const entries = Buffer.concat(directory);
  const ends = endsOf({ count: directory.length, lengthBytes: entries.byteLength, offsetBytes: at });
  return { head: Buffer.concat(head), tail: Buffer.concat([entries, ends]) };
}

/** `data.pkl`: a call that makes the tensor from its storage, its shape and its strides. */
function pickleOf({ type, shape, sizeBytes }: TensorInArchive): Uint8Array {
  const strides = shape.map((_, d) =>
    shape.slice(d + 1).reduce((product, side) => product * Math.max(side, 1), 1),
  );
  const count = shape.reduce((product, side) => product * side, 1);
  const held = type.storage
    ? { of: named('torch', type.storage), count }
    : { of: named('torch.storage', 'UntypedStorage'), count: sizeBytes };
  const storage = reference(tuple('storage', held.of, STORAGE, 'cpu', held.count));
  const hooks = called(named('collections', 'OrderedDict'));
  const args = [storage, 0, tuple(...shape), tuple(...strides), false, hooks] as const;
  return writePickle(
    type.storage
      ? called(named('torch._utils', '_rebuild_tensor_v2'), ...args)
      : called(named('torch._utils', '_rebuild_tensor_v3'), ...args, named('torch', type.name)),
  );
}

interface InArchive {
  readonly name: Uint8Array;
  readonly sizeBytes: number;
}

/** The header of a file, before its bytes. */
function localOf({ name, sizeBytes }: InArchive): Uint8Array {
  const extra = wide(sizeBytes, sizeBytes);
  const fields = record([4, LOCAL], [2, VERSION], [2, FLAGS], [2, 0], [4, 0], [4, 0], [4, IN_64], [4, IN_64]);
  return Buffer.concat([fields, record([2, name.byteLength], [2, extra.byteLength]), name, extra]);
}

/** The entry of a file in the central directory. */
function entryOf({ name, sizeBytes }: InArchive, headerOffsetBytes: number): Uint8Array {
  const extra = wide(sizeBytes, sizeBytes, headerOffsetBytes);
  const versions = record([4, ENTRY], [2, VERSION], [2, VERSION], [2, FLAGS], [2, 0], [4, 0], [4, 0]);
  const sizes = record([4, IN_64], [4, IN_64], [2, name.byteLength], [2, extra.byteLength]);
  const rest = record([2, 0], [2, 0], [2, 0], [4, 0], [4, IN_64]);
  return Buffer.concat([versions, sizes, rest, name, extra]);
}

/** The extra field with values of 64 bits. */
function wide(...values: readonly number[]): Uint8Array {
  return record([2, EXTRA_64], [2, 8 * values.length], ...values.map((value) => [8, value] as const));
}

interface DirectoryFacts {
  readonly count: number;
  readonly lengthBytes: number;
  readonly offsetBytes: number;
}

/** The three records that find the central directory, from the end of the archive. */
function endsOf({ count, lengthBytes, offsetBytes }: DirectoryFacts): Uint8Array {
  const facts = [count, count, lengthBytes, offsetBytes].map((value) => [8, value] as const);
  // The size of a 64-bit end record counts neither its signature nor itself.
  const wideEnd = record([4, END_64], [8, 44], [2, VERSION], [2, VERSION], [4, 0], [4, 0], ...facts);
  const locator = record([4, END_64_LOCATOR], [4, 0], [8, offsetBytes + lengthBytes], [4, 1]);
  const end = record([4, END], [2, 0], [2, 0], [2, IN_16], [2, IN_16], [4, IN_64], [4, IN_64], [2, 0]);
  return Buffer.concat([wideEnd, locator, end]);
}

/** Little-endian numbers, each with its count of bytes. */
function record(...fields: readonly (readonly [byteCount: 2 | 4 | 8, value: number])[]): Uint8Array {
  const bytes = Buffer.alloc(fields.reduce((sum, [byteCount]) => sum + byteCount, 0));
  let at = 0;
  for (const [byteCount, value] of fields) {
    if (byteCount === 8) bytes.writeBigUInt64LE(BigInt(value), at);
    else bytes.writeUIntLE(value, at, byteCount);
    at += byteCount;
  }
  return bytes;
}
