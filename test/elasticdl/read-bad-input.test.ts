/** Errors of a shard's file name the file, the tensor or table, and the position. */

import { decodeShard } from '@holdfast/elasticdl';
import { expect, test } from 'vitest';
import {
  BIAS,
  type Bytes,
  block,
  branchTensor,
  denseEntry,
  floats,
  info,
  int,
  join,
  KERNEL,
  listTensor,
  mapTensor,
  packed,
  TABLE,
  tableEntry,
  tensorProto,
  unpacked,
  varint,
  writtenShard,
} from './written-shards.ts';

const FILE = 'variables-0-of-2.ckpt';
const EMPTY = new Uint8Array(0);
const TABLE_INFO = info(2, 'embedding', 2);
const ONE_ROW = { ...TABLE, shape: [1, 2], content: floats(1, 2), ids: [7] };

function tag(field: number, wireType: number): Bytes {
  return varint(8 * field + wireType);
}

/** A dense variable of S7 whose tensor consists of any bytes. */
function variable(tensor: Bytes, name: string | Bytes = 'v'): Bytes {
  return block(3, join(block(1, name), block(2, tensor)));
}

const CASES: readonly [string, Bytes, string | RegExp][] = [
  // Truncated.
  [
    'cut off in the content',
    writtenShard('S4').subarray(0, 30),
    '"dense/kernel:0", at byte 24: it is cut off: expected 8 bytes of field 3, found 4 bytes',
  ],
  [
    'cut off in the content of S7',
    denseEntry(3, BIAS).subarray(0, 30),
    '"dense/bias:0", at byte 16: it is cut off: expected 14 bytes of field 2, found 12 bytes',
  ],
  [
    'cut off between the fields of a tensor',
    writtenShard('S4').subarray(0, 34),
    '"dense/kernel:0", at byte 2: it is cut off: expected 32 bytes of field 2, found 30 bytes',
  ],
  [
    'cut off in what no form has',
    block(20, 'text').subarray(0, 5),
    'at byte 0: it is cut off: expected 4 bytes of field 20, found 2 bytes',
  ],
  [
    'cut off in a fixed number',
    join(varint(8 * 20 + 5), new Uint8Array(3)),
    'at byte 0: it is cut off: expected 4 bytes of field 20, found 3 bytes',
  ],
  [
    'content longer than its tensor',
    block(2, join(block(1, 'v'), tag(3, 2), varint(9), floats(1))),
    '"v", at byte 5: it is cut off: expected 9 bytes of field 3, found 4 bytes',
  ],
  [
    'a length of 2^63',
    join(tag(2, 2), varint(2n ** 63n)),
    'at byte 0: it is cut off: expected 9223372036854776000 bytes',
  ],
  [
    'a tag alone',
    Uint8Array.of(0x12),
    'at byte 1: it is cut off: expected the rest of a varint, found the end',
  ],
  ['half a varint', Uint8Array.of(0x08, 0x80), 'at byte 1: it is cut off'],
  // Not protobuf.
  [
    'a varint of eleven bytes',
    Uint8Array.of(8, ...new Uint8Array(10).fill(0x80), 0),
    'at byte 1: a varint has more than 64 bits',
  ],
  [
    'a varint of 65 bits',
    Uint8Array.of(8, ...new Uint8Array(9).fill(0xff), 2),
    'at byte 1: a varint has more than 64 bits',
  ],
  ['field 0', Uint8Array.of(0x00, 0x01), 'at byte 0: this is not the tag of a field'],
  ['a field beyond all', join(varint(2n ** 33n), int(1, 1)), 'at byte 0: this is not the tag of a field'],
  ['a group', Uint8Array.of(0x0b), 'at byte 0: field 1 has wire type 3, which no form has'],
  ['wire type 7', Uint8Array.of(0x57), 'at byte 0: field 10 has wire type 7, which no form has'],
  [
    'a tag that is too long',
    Uint8Array.of(0x88, 0x00, 0x01),
    'at byte 0: the tag of field 1 is longer than it has to be',
  ],
  ['a version that is text', block(1, 'x'), 'at byte 0: field 1 has wire type 2, as in no form'],
  ['a list of numbers', int(2, 1), 'at byte 0: field 2 has wire type 0, as in no form'],
  // Names.
  [
    'a name not UTF-8',
    listTensor({ ...BIAS, name: Buffer.from([0xff, 0xfe]) as never }),
    'at byte 4: the name is not UTF-8',
  ],
  [
    'half a surrogate pair',
    variable(EMPTY, Buffer.from('eda080', 'hex')),
    'at byte 4: the name is not UTF-8',
  ],
  [
    'an initializer not UTF-8',
    block(2, join(block(1, 'e'), block(3, Buffer.from([0x80])))),
    'the info of table "e", at byte 7: the initializer is not UTF-8',
  ],
  [
    'a name of more than 64 KiB',
    denseEntry(3, { ...BIAS, name: 'n'.repeat(65_537) }),
    'the name has 65537 bytes, more than are read',
  ],
  [
    'the same name twice',
    join(listTensor(BIAS), listTensor(BIAS)),
    'tensor "dense/bias:0", at byte 27: there is a second tensor of this name',
  ],
  [
    'dense and table of one name',
    join(info(2, 'e', 2), denseEntry(3, { ...BIAS, name: 'f' }), tableEntry(4, { ...TABLE, name: 'f' })),
    'tensor "f", at byte 37: there is a second tensor',
  ],
  [
    'dense, with the info of a table',
    join(info(2, 'e', 2), denseEntry(3, { ...BIAS, name: 'e' })),
    'tensor "e", at byte 16: it is a dense variable, and an info says that it is a table',
  ],
  // Types.
  [
    'no type',
    listTensor({ ...BIAS, dtype: 0 }),
    'tensor "dense/bias:0", at byte 0: its elements have type 0 (none), which no variable has',
  ],
  ['text', denseEntry(3, { ...BIAS, dtype: 7 }), 'its elements have type 7, which no variable has'],
  ['an unknown type', branchTensor({ ...BIAS, dtype: 9 }), 'its elements have type 9, which no variable has'],
  [
    'a type of 2^40',
    mapTensor({ ...BIAS, dtype: 2 ** 40 }),
    `its elements have type ${2 ** 40}, which no variable has`,
  ],
  [
    'a type of an info that does not exist',
    info(2, 'e', 2, 99),
    'the info of table "e", at byte 2: there is no type 99',
  ],
  [
    'a type that is text',
    variable(join(block(1, 'x'), block(4, floats(1)))),
    'the type (field 1) is of another kind: expected a number, found bytes',
  ],
  ['two types', variable(join(int(1, 1), int(1, 2))), 'the type is there 2 times'],
  [
    'types by two numberings',
    join(listTensor(BIAS), listTensor({ ...KERNEL, dtype: 6 })),
    `tensor "dense/bias:0", at byte 0: its type exists only in TensorFlow's numbers, and the type of tensor "dense/kernel:0" only in ElasticDL's`,
  ],
  // Shapes and sizes.
  [
    'a size mismatch',
    denseEntry(3, { ...KERNEL, content: floats(1) }),
    'tensor "dense/kernel:0", at byte 34: size mismatch: expected 8 bytes for float32 [2, 1], found 4 bytes',
  ],
  [
    'a size mismatch in a list',
    listTensor({ ...KERNEL, dtype: 6, content: new Uint8Array(7) }),
    /tensor "dense\/kernel:0", at byte 24: size mismatch: expected 8 bytes for float32 \[2, 1\], found 7 bytes/,
  ],
  [
    'a size mismatch in a table',
    join(TABLE_INFO, tableEntry(4, { ...TABLE, content: floats(1) })),
    'tensor "embedding", at byte 55: size mismatch: expected 32 bytes for float32 [4, 2], found 4 bytes',
  ],
  [
    'no shape and no content',
    listTensor({ ...BIAS, dtype: 3, shape: [], content: EMPTY }),
    'size mismatch: expected 4 bytes for int32 [], found 0 bytes',
  ],
  [
    'a negative dimension',
    denseEntry(3, { ...BIAS, shape: [-1] }),
    'tensor "dense/bias:0", at byte 24: a dimension is out of range: expected 0 to 2^53 - 1, found -1',
  ],
  [
    'a dimension of 2^53',
    listTensor({ ...BIAS, shape: [2n ** 53n] }),
    'a dimension is out of range: expected 0 to 2^53 - 1, found 9007199254740992',
  ],
  [
    'dimensions that overflow',
    denseEntry(3, { ...BIAS, shape: [2 ** 30, 2 ** 30] }),
    'the shape [1073741824,1073741824] asks for more than 2^53 bytes',
  ],
  [
    'dimensions that overflow beside 0',
    denseEntry(3, { ...BIAS, shape: [0, 2 ** 30, 2 ** 30], content: EMPTY }),
    'asks for more than 2^53 bytes',
  ],
  [
    '255 dimensions, packed',
    listTensor({ ...BIAS, shape: new Array(255).fill(1) }),
    'tensor "dense/bias:0", at byte 20: the shape has more than 254 numbers',
  ],
  [
    '300 dimensions, unpacked',
    listTensor({ ...BIAS, shape: new Array(300).fill(1) }, unpacked),
    'the shape has more than 254 numbers',
  ],
  [
    '255 dimensions of TensorFlow',
    denseEntry(3, { ...BIAS, shape: new Array(255).fill(1) }),
    'the shape has more than 254 numbers',
  ],
  [
    'a shape of more than 4 KiB',
    listTensor({ ...BIAS, shape: new Array(5000).fill(1) }),
    'the shape has 5000 bytes, more than are read',
  ],
  [
    'a shape that ends in a number',
    block(2, join(block(1, 'v'), block(2, Uint8Array.of(0x80)), block(3, floats(1)), int(5, 1))),
    'tensor "v", at byte 7: the shape does not end where its numbers do',
  ],
  [
    'a shape that is a fixed number',
    block(2, join(block(1, 'v'), tag(2, 5), floats(1), int(5, 1))),
    'the shape (field 2) is of another kind: expected numbers, found a fixed number',
  ],
  [
    'an unknown rank',
    variable(join(int(1, 1), block(2, int(3, 1)))),
    'tensor "v", at byte 11: its shape is of unknown rank',
  ],
  [
    'two contents',
    variable(join(int(1, 1), block(4, floats(1)), block(4, floats(1)))),
    'there is a second content',
  ],
  [
    'content that is a number',
    variable(join(int(1, 1), int(4, 1))),
    'the content (field 4) is of another kind: expected bytes, found a varint',
  ],
  [
    'values one by one',
    variable(join(int(1, 1), block(5, floats(1)))),
    'tensor "v", at byte 7: its values are in float_val; only tensor_content is read, as ElasticDL writes it',
  ],
  ['values one by one, of halves', variable(join(int(1, 19), int(13, 1))), 'its values are in half_val'],
  // Tables.
  [
    'a row without info',
    join(info(2, 'other', 2), tableEntry(4, TABLE)),
    'table "embedding", at byte 20: table row without info',
  ],
  [
    'rows in S7, and no info at all',
    tableEntry(4, TABLE),
    'table "embedding", at byte 0: table row without info',
  ],
  [
    'a row without info in S4',
    join(listTensor({ ...TABLE, dtype: 6 }), info(3, 'other', 2)),
    'table "embedding", at byte 0: table row without info',
  ],
  [
    'rows of another dim',
    join(info(2, 'embedding', 3), tableEntry(4, TABLE)),
    'its rows are not what its info says: expected 3 elements, found 2',
  ],
  [
    'rows and no ids',
    join(TABLE_INFO, tableEntry(4, { ...TABLE, ids: [] })),
    'table "embedding", at byte 24: ids and rows of different count: expected 4 ids, found 0',
  ],
  [
    'rows and no ids, in S4',
    join(listTensor({ ...TABLE, dtype: 6, ids: [] }), info(3, 'embedding', 2)),
    'ids and rows of different count: expected 4 ids, found 0',
  ],
  [
    'ids and no rows',
    join(TABLE_INFO, tableEntry(4, { ...TABLE, shape: [0], content: EMPTY })),
    'ids and rows of different count: expected 0 ids, found',
  ],
  [
    'one id too few',
    join(TABLE_INFO, tableEntry(4, { ...TABLE, ids: [300, 300, 300] })),
    'table "embedding", at byte 89: ids and rows of different count: expected 4, found 3',
  ],
  [
    'one id too many',
    join(TABLE_INFO, tableEntry(4, { ...TABLE, ids: [1, 2, 3, 4, 300] })),
    'ids and rows of different count: expected 4, found 5',
  ],
  [
    'one id too few, unpacked',
    join(TABLE_INFO, tableEntry(4, { ...TABLE, ids: [300, 300, 300] }, unpacked)),
    'ids and rows of different count: expected 4 ids, found 3',
  ],
  [
    'an id without its end',
    join(
      TABLE_INFO,
      tableEntry(4, ONE_ROW, (field) => block(field, Uint8Array.of(0x87))),
    ),
    'table "embedding", at byte 65: the varint of an id has no end, or more than 64 bits',
  ],
  [
    'an id of eleven bytes',
    join(
      TABLE_INFO,
      tableEntry(4, TABLE, (field) => block(field, new Uint8Array(20).fill(0x81))),
    ),
    'table "embedding", at byte 89: the varint of an id',
  ],
  [
    'an id of 65 bits',
    join(
      TABLE_INFO,
      tableEntry(4, ONE_ROW, (field) => block(field, join(new Uint8Array(9).fill(0x81), Uint8Array.of(2)))),
    ),
    'table "embedding", at byte 65: the varint of an id',
  ],
  [
    'ids that are fixed numbers',
    join(
      TABLE_INFO,
      tableEntry(4, ONE_ROW, (field) => join(tag(field, 1), new Uint8Array(8))),
    ),
    'the ids (field 2) is of another kind: expected numbers, found a fixed number',
  ],
  [
    'rows that are no table',
    join(TABLE_INFO, tableEntry(4, { ...TABLE, shape: [8] })),
    'the rows of a table have another shape: expected [rows, dim], found [8]',
  ],
  [
    'rows of three dimensions',
    join(TABLE_INFO, tableEntry(4, { ...TABLE, shape: [4, 2, 1] })),
    'the rows of a table have another shape: expected [rows, dim], found [4,2,1]',
  ],
  [
    'rows of no elements',
    join(info(2, 'embedding', 0), tableEntry(4, { ...TABLE, shape: [4, 0], content: EMPTY })),
    'table "embedding", at byte 24: the rows have no elements',
  ],
  [
    'a negative dim of an info',
    info(2, 'e', -1),
    'the info of table "e", at byte 2: a dimension is out of range: expected 0 to 2^53 - 1, found -1',
  ],
  // Two schemas.
  [
    'a list and the maps of S7',
    join(listTensor(BIAS), denseEntry(3, KERNEL)),
    'at byte 27: two schemas in one file: here is a dense variable of S7, and at byte 0 a tensor whose name is field 1 (S3 to S5)',
  ],
  [
    'a map and a list',
    join(mapTensor({ ...BIAS, dtype: 6 }), listTensor({ ...KERNEL, dtype: 6 })),
    'two schemas in one file: here is a tensor whose name is field 1 (S3 to S5), and at byte 0 an entry of a map of tensors (S0 to S2)',
  ],
  ['the infos of S4 and S7', join(info(3, 'e', 2), info(2, 'e', 2)), 'two schemas in one file'],
  [
    'the tables of S6 and S7',
    join(tableEntry(5, ONE_ROW), tableEntry(4, ONE_ROW)),
    'two schemas in one file',
  ],
  [
    'the branch and a list',
    join(branchTensor({ ...BIAS, dtype: 6 }), listTensor({ ...KERNEL, dtype: 6 })),
    'two schemas in one file',
  ],
  // More than the memory limit.
  [
    'too many fields in one message',
    block(2, join(...new Array(65_537).fill(int(9, 1)).map((bytes, at) => (at % 2 ? bytes : int(8, 1))))),
    'a message has more than 65536 fields',
  ],
];

test.each(CASES)('Corrupt: %s', async (_, bytes, message) => {
  const error = await decodeShard(bytes, { name: FILE }).catch((caught: unknown) => caught);
  expect(error).toMatchObject({ code: 'Corrupt', context: { name: FILE, offsetBytes: expect.any(Number) } });
  const text = (error as Error).message;
  expect(text.startsWith(`${FILE}: `)).toBe(true);
  if (typeof message === 'string') expect(text).toContain(message);
  else expect(text).toMatch(message);
});

test('InvalidArgument: a type that means two things, and nothing tells which', async () => {
  const bytes = listTensor({ name: 'half', dtype: 5, shape: [1], content: new Uint8Array(2) });
  await expect(decodeShard(bytes, { name: FILE })).rejects.toMatchObject({
    code: 'InvalidArgument',
    message:
      `${FILE}: tensor "half", at byte 0: its type 5 is ambiguous, and the file does not say whose numbers it uses; ` +
      "pass numbering: 'elasticdl' (float16) or numbering: 'tensorflow' (int16)",
  });
});

test('a long name is cut off in messages', async () => {
  const error = decodeShard(denseEntry(3, { ...BIAS, name: 'n'.repeat(60_000), dtype: 0 }));
  await expect(error).rejects.toThrow(`tensor "${'n'.repeat(200)}…", at byte`);
});

test('every cut of a valid file is Corrupt or a shorter file', async () => {
  const bytes = join(
    int(1, 3),
    info(2, 'e', 1),
    variable(tensorProto({ dtype: 1, shape: [1], content: floats(1) })),
  );
  const ends: number[] = [];
  for (let end = 0; end <= bytes.byteLength; end++) {
    const error = await decodeShard(bytes.subarray(0, end)).then(
      () => null,
      (caught: unknown) => caught,
    );
    if (error === null) ends.push(end);
    else expect(error).toMatchObject({ code: 'Corrupt' });
  }
  // Protobuf does not say how many fields a message has.
  expect(ends).toEqual([0, 2, 2 + info(2, 'e', 1).byteLength, bytes.byteLength]);
  expect(packed(4, [])).toHaveLength(0);
});
