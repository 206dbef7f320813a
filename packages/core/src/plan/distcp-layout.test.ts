import { expect, test } from 'vitest';
import { readDistcp } from './distcp.ts';
import { planDistcpFiles } from './distcp-layout.ts';
import type { JoinedTensor } from './joined-tensors.ts';
import { PickledName, PickledObject, PickledReference, readPickle } from './pickle.ts';
import { dictionary, list, named, objectOf, reference, tuple, writePickle } from './pickle-writer.ts';
import { directoryIn, filesIn, isInOrder, LOCAL_BYTES, lengthOfLocal, savedTensor } from './torch-archive.ts';
import { frameOfTensor } from './torch-archive-frame.ts';
import { type TorchType, torchType } from './torch-dtypes.ts';

const GIB = 1024 ** 3;

function joined(name: string, dtype: string, shape: number[], sizeBytes: number): JoinedTensor {
  const grid = { shape: [sizeBytes], elementBytes: 1 };
  return { name, dtype, shape, sizeBytes, grid, parts: [] };
}

test('its metadata say where each archive is, in files of the given size', () => {
  const tensors = [
    joined('a', 'F32', [2, 3], 24),
    joined('b.ü', 'F8_E4M3', [], 1),
    joined('c', 'BF16', [3 * GIB], 6 * GIB),
  ];
  const { files, index } = planDistcpFiles(tensors, 5 * GIB);
  expect([index?.name, files.map(({ name }) => name)]).toEqual([
    '.metadata',
    ['__0_0.distcp', '__0_1.distcp'],
  ]);
  const parts = readDistcp(index?.bytes as Uint8Array);
  expect(
    parts.map(({ name, dtype, shape, sizeBytes, file }) => [name, dtype, shape, sizeBytes, file]),
  ).toEqual([
    ['a', 'F32', [2, 3], 24, '__0_0.distcp'],
    ['b.ü', 'F8_E4M3', [], 1, '__0_0.distcp'],
    ['c', 'BF16', [3 * GIB], 6 * GIB, '__0_1.distcp'],
  ]);
  const [a, b, c] = parts.map(({ archive }) => archive);
  expect([a?.offsetBytes, b?.offsetBytes, c?.offsetBytes]).toEqual([0, a?.lengthBytes, 0]);
  expect(files[0]?.sizeBytes).toBe((b?.offsetBytes ?? 0) + (b?.lengthBytes ?? 0));
});

test('frames and tensors cover each file without gaps', () => {
  const tensors = [joined('a', 'U8', [7], 7), joined('none', 'F32', [0, 3], 0), joined('b', 'I64', [2], 16)];
  for (const file of planDistcpFiles(tensors, GIB).files) {
    const frames = [...file.frames()].map(({ offsetBytes, bytes }) => [offsetBytes, bytes.byteLength]);
    const data = file.tensors.map(({ tensor, offsetBytes }) => [offsetBytes, tensor.sizeBytes]);
    let at = 0;
    for (const [offset, size] of [...frames, ...data].sort(
      ([a = 0, m = 0], [b = 0, n = 0]) => a - b || m - n,
    )) {
      expect(offset).toBe(at);
      at += size ?? 0;
    }
    expect(at).toBe(file.sizeBytes);
  }
});

test('a type that PyTorch does not have, and a name that is no Unicode, are refused', () => {
  expect(() => planDistcpFiles([joined('nibbles', 'F4', [4], 2)], GIB)).toThrow(
    expect.objectContaining({ code: 'Unsupported', message: expect.stringContaining('"nibbles"') }),
  );
  expect(() => planDistcpFiles([joined('\ud800', 'U8', [1], 1)], GIB)).toThrow(
    expect.objectContaining({
      code: 'InvalidArgument',
      message: expect.stringContaining('not valid Unicode'),
    }),
  );
});

test.each(['F32', 'F8_E5M2', 'U16', 'C64'])('an archive of %s is found by its ends', (dtype) => {
  const type = torchType(dtype) as TorchType;
  const shape = [2, 1, 4 * GIB];
  const sizeBytes = 40 * GIB;
  const { head, tail } = frameOfTensor({ type, shape, sizeBytes });
  const archiveBytes = head.byteLength + sizeBytes + tail.byteLength;
  const directory = directoryIn(tail, archiveBytes);
  expect(directory.offsetBytes).toBe(head.byteLength + sizeBytes);
  const files = filesIn(tail.subarray(0, directory.lengthBytes));
  expect(files.map(({ name }) => name)).toEqual(
    ['data.pkl', 'byteorder', 'version', 'data/0'].map((name) => `archive/${name}`),
  );
  const contentOf = (at: number) => {
    const { headerOffsetBytes, sizeBytes: size } = files[at] as (typeof files)[number];
    const from = headerOffsetBytes + lengthOfLocal(head.subarray(headerOffsetBytes).subarray(0, LOCAL_BYTES));
    return { from, bytes: head.subarray(from, from + size) };
  };
  const tensor = savedTensor(contentOf(0).bytes);
  expect([tensor, isInOrder(tensor)]).toEqual([
    { storage: '0', dtype, offset: 0, shape, strides: [4 * GIB, 4 * GIB, 1], marks: [] },
    true,
  ]);
  expect(Buffer.from(contentOf(1).bytes).toString()).toBe('little');
  expect([contentOf(3).from, files[3]?.sizeBytes]).toEqual([head.byteLength, sizeBytes]);
});

test('values that a pickle holds are read back', () => {
  const numbers = [0, 255, 256, 2 ** 31 - 1, 2 ** 31, -1, -(2 ** 31), -(2 ** 31) - 1, 2 ** 53 - 1];
  const texts = Array.from({ length: 300 }, (_, at) => `text ${at % 290}`);
  const value = tuple(list(numbers), list(texts), 'ü', null, false, tuple(), list([]));
  expect(readPickle(writePickle(value))).toEqual([numbers, texts, 'ü', null, false, [], []]);
  const made = readPickle(writePickle(objectOf(named('a.b', 'C'), dictionary([['key', 5]]))));
  expect(made).toBeInstanceOf(PickledObject);
  const { of, state } = made as PickledObject;
  expect([(of as PickledName).name, [...(state as never as { pairs(): Iterable<unknown> }).pairs()]]).toEqual(
    ['a.b.C', [['key', 5]]],
  );
  const id = readPickle(writePickle(reference(tuple('storage', named('torch', 'X'))))) as PickledReference;
  expect(id).toBeInstanceOf(PickledReference);
  expect(id.id).toEqual(['storage', new PickledName('torch', 'X')]);
});
