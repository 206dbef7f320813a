import { expect, test } from 'vitest';
import { layOutSafetensors, type TensorToLayOut } from './safetensors-layout.ts';

const ITEM_BYTES = { I64: 8, F64: 8, F32: 4, BF16: 2, BOOL: 1, I8: 1 };

function tensor(
  name: string,
  dtype: keyof typeof ITEM_BYTES = 'F32',
  shape: readonly number[] = [1],
): TensorToLayOut {
  const sizeBytes = shape.reduce((product, size) => product * size, ITEM_BYTES[dtype]);
  return { name, dtype, shape, sizeBytes, what: `variable "${name}"` };
}

function jsonOf(header: Uint8Array): string {
  const length = Number(new DataView(header.buffer).getBigUint64(0, true));
  expect(header.byteLength).toBe(8 + length);
  return new TextDecoder('utf-8', { fatal: true }).decode(header.subarray(8));
}

test('tensors follow without gaps, the widest types first, then by name in UTF-8; the header is padded to a multiple of 8', () => {
  const { header, tensors, sizeBytes } = layOutSafetensors(
    [
      tensor('b'),
      tensor('flag', 'BOOL', [3]),
      tensor('a'),
      tensor('ids', 'I64', [2]),
      tensor('7', 'BF16', []),
      tensor('\u{1F600}'),
      tensor('\uFB01'),
      tensor('none', 'F64', [0, 5]),
    ],
    { version: '1' },
  );
  const json = jsonOf(header);
  expect(json.trimEnd()).toBe(
    `{${[
      '"__metadata__":{"version":"1"}',
      '"ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}',
      '"none":{"dtype":"F64","shape":[0,5],"data_offsets":[16,16]}',
      '"a":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}',
      '"b":{"dtype":"F32","shape":[1],"data_offsets":[20,24]}',
      '"\uFB01":{"dtype":"F32","shape":[1],"data_offsets":[24,28]}',
      '"\u{1F600}":{"dtype":"F32","shape":[1],"data_offsets":[28,32]}',
      '"7":{"dtype":"BF16","shape":[],"data_offsets":[32,34]}',
      '"flag":{"dtype":"BOOL","shape":[3],"data_offsets":[34,37]}',
    ].join(',')}}`,
  );
  expect(header.byteLength % 8).toBe(0);
  expect(json.length - json.trimEnd().length).toBeLessThan(8);
  expect(sizeBytes).toBe(header.byteLength + 37);
  expect(tensors.map(({ name, offsetBytes }) => [name, offsetBytes - header.byteLength])).toEqual(
    Object.entries({ ids: 0, none: 16, a: 16, b: 20, '\uFB01': 24, '\u{1F600}': 28 })
      .concat([['7', 32]])
      .concat([['flag', 34]]),
  );
});

test('a model without tensors is a file with a header', () => {
  const { sizeBytes, header } = layOutSafetensors([], {});
  expect(sizeBytes).toBe(header.byteLength);
  expect(jsonOf(header).trimEnd()).toBe('{"__metadata__":{}}');
});

test('two tensors of one name are refused, and both are named', () => {
  const ids = { ...tensor('a.ids', 'I64'), what: 'the ids of table "a"' };
  expect(() => layOutSafetensors([tensor('a.ids'), ids], {})).toThrow(
    expect.objectContaining({
      code: 'InvalidArgument',
      message: 'variable "a.ids" and the ids of table "a" would both be called "a.ids" in the file',
    }),
  );
});

test('the name that the format keeps for itself is refused', () => {
  expect(() => layOutSafetensors([tensor('__metadata__')], {})).toThrow(
    expect.objectContaining({
      code: 'InvalidArgument',
      message:
        'variable "__metadata__" cannot be called "__metadata__": the safetensors format reserves this name',
    }),
  );
});

test('names and sizes that no file can hold are refused', () => {
  const long = tensor('a'.repeat(100_000_000));
  expect(() => layOutSafetensors([long], {})).toThrow(
    expect.objectContaining({
      code: 'InvalidArgument',
      message: expect.stringMatching(
        /^the names and shapes of 1 tensors take 1000000\d\d bytes; .* has room for 100000000$/,
      ),
    }),
  );
  const half = [2 ** 26, 2 ** 26];
  expect(() => layOutSafetensors([tensor('a', 'I8', half), tensor('b', 'I8', half)], {})).toThrow(
    expect.objectContaining({
      code: 'InvalidArgument',
      message: 'with variable "b" the file would have 2^53 bytes or more',
    }),
  );
});
