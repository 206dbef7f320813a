import { expect, test } from 'vitest';
import {
  called,
  dictionary,
  named,
  type PickleValue,
  reference,
  tuple,
  writePickle,
} from './pickle-writer.ts';
import { directoryIn, filesIn, isInOrder, lengthOfLocal, savedTensor } from './torch-archive.ts';

const LARGE = 5 * 2 ** 32;

/** Little-endian fields, each [value, bytes]. */
function fields(...values: readonly (readonly [value: number, sizeBytes: 2 | 4 | 8])[]): Buffer {
  return Buffer.concat(
    values.map(([value, sizeBytes]) => {
      const field = Buffer.alloc(8);
      field.writeBigUInt64LE(BigInt(value));
      return field.subarray(0, sizeBytes);
    }),
  );
}

/** An entry of the directory. `extra`: its extra field. */
function entry(name: string, [stored, plain, header]: readonly number[], extra: Buffer): Buffer {
  const zeros = Buffer.alloc(8);
  return Buffer.concat([
    fields([0x02014b50, 4], [0, 2], [0, 2], [0, 2], [0, 2], [0, 4], [0, 4]),
    fields([stored as number, 4], [plain as number, 4], [name.length, 2], [extra.byteLength, 2], [0, 2]),
    zeros,
    fields([header as number, 4]),
    Buffer.from(name),
    extra,
  ]);
}

function tailOf(archiveBytes: number, directory: { offsetBytes: number; lengthBytes: number }): Buffer {
  const end64At = archiveBytes - 56 - 20 - 22;
  return Buffer.concat([
    fields([0x06064b50, 4], [44, 8], [0, 2], [0, 2], [0, 4], [0, 4], [1, 8], [1, 8]),
    fields([directory.lengthBytes, 8], [directory.offsetBytes, 8]),
    fields([0x07064b50, 4], [0, 4], [end64At, 8], [1, 4]),
    fields(
      [0x06054b50, 4],
      [0, 2],
      [0, 2],
      [0xffff, 2],
      [0xffff, 2],
      [0xffffffff, 4],
      [0xffffffff, 4],
      [0, 2],
    ),
  ]);
}

test('an archive of more than 4 GiB has its places in 64 bits', () => {
  const directory = { offsetBytes: LARGE, lengthBytes: 200 };
  const archiveBytes = LARGE + 200 + 98;
  const tail = tailOf(archiveBytes, directory);
  expect(tail.byteLength).toBe(98);
  expect(directoryIn(tail, archiveBytes)).toEqual(directory);
  // Bytes before the end do not matter.
  expect(directoryIn(Buffer.concat([Buffer.alloc(50), tail]), archiveBytes)).toEqual(directory);
  const other = Buffer.from(tail);
  other.writeUInt32LE(0, 56);
  expect(() => directoryIn(other, archiveBytes)).toThrow(
    'it does not have its 64-bit locator as torch.save writes it',
  );
  expect(() => directoryIn(tail.subarray(30), archiveBytes)).toThrow('it does not have its 64-bit end');
  expect(() =>
    directoryIn(tailOf(archiveBytes, { offsetBytes: LARGE, lengthBytes: 300 }), archiveBytes),
  ).toThrow('it does not have the place of its directory');
});

test('a file of more than 4 GiB has its sizes in an extra field, behind others', () => {
  const other = fields([0x4246, 2], [3, 2], [0, 2]);
  const extra = Buffer.concat([
    other,
    Buffer.alloc(1),
    fields([1, 2], [24, 2], [LARGE, 8], [LARGE, 8], [LARGE + 1, 8]),
  ]);
  const wide = entry('a/data/0', [0xffffffff, 0xffffffff, 0xffffffff], extra);
  const small = entry('a/data.pkl', [150, 150, 0], Buffer.alloc(0));
  expect(filesIn(Buffer.concat([small, wide]))).toEqual([
    { name: 'a/data.pkl', sizeBytes: 150, headerOffsetBytes: 0 },
    { name: 'a/data/0', sizeBytes: LARGE, headerOffsetBytes: LARGE + 1 },
  ]);
  const without = entry('a', [0xffffffff, 1, 1], Buffer.alloc(0));
  expect(() => filesIn(without)).toThrow('it does not have its 64-bit sizes');
  expect(() => filesIn(small.subarray(0, -1))).toThrow('it does not have its directory');
  const compressed = Buffer.from(small);
  compressed.writeUInt16LE(8, 10);
  expect(() => filesIn(compressed)).toThrow('a tensor is compressed');
});

test('a local header has lengths of its own', () => {
  const header = Buffer.concat([fields([0x04034b50, 4]), Buffer.alloc(22), fields([8, 2], [40, 2])]);
  expect(lengthOfLocal(header)).toBe(78);
  expect(() => lengthOfLocal(header.subarray(1))).toThrow('it does not have the header of a file');
});

test.each<[number[], number[], boolean]>([
  [[], [], true],
  [[2, 3], [3, 1], true],
  [[2, 3], [1, 2], false],
  [[2, 3], [6, 1], false],
  [[1, 3], [99, 1], true],
  [[0, 3], [1, 9], true],
  [[2], [], false],
])('whether a tensor of shape %j with strides %j is in C order: %s', (shape, strides, expected) => {
  expect(isInOrder({ storage: '0', dtype: 'U8', offset: 0, shape, strides, marks: [] })).toBe(expected);
});

test.each<[string, readonly PickleValue[], readonly string[]]>([
  ['_rebuild_tensor_v2', [], []],
  ['_rebuild_tensor_v2', [dictionary([])], []],
  ['_rebuild_tensor_v2', [dictionary([['conj', 1]])], ['conj']],
  ['_rebuild_tensor_v3', [named('torch', 'complex64'), dictionary([['neg', 1]])], ['neg']],
])('the marks of a tensor that %s makes', (call, more, marks) => {
  const storage = reference(tuple('storage', named('torch', 'ComplexFloatStorage'), '0', 'cpu', 2));
  const hooks = called(named('collections', 'OrderedDict'));
  const pickle = (name: string) =>
    writePickle(called(named('torch._utils', name), storage, 0, tuple(2), tuple(1), false, hooks, ...more));
  const tensor = { storage: '0', dtype: 'C64', offset: 0, shape: [2], strides: [1] };
  expect(savedTensor(pickle(call))).toEqual({ ...tensor, marks });
  expect(() => savedTensor(pickle('_rebuild_qtensor'))).toThrow('it does not have a tensor');
});
