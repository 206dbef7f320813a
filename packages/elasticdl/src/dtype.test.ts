import { expect, test } from 'vitest';
import { dtypeOfNumber, itemBytes, numberOfDtype } from './dtype.ts';
import type { Dtype } from './model.ts';

/** Bytes, then the number in ElasticDL's numbering and in TensorFlow's. */
const ROWS: readonly [Dtype, number, number | null, number][] = [
  ['bool', 1, 8, 10],
  ['int8', 1, 1, 6],
  ['int16', 2, 2, 5],
  ['int32', 4, 3, 3],
  ['int64', 8, 4, 9],
  ['uint8', 1, null, 4],
  ['uint16', 2, null, 17],
  ['float16', 2, 5, 19],
  ['bfloat16', 2, null, 14],
  ['float32', 4, 6, 1],
  ['float64', 8, 7, 2],
];

test.each(ROWS)('%s: its size, and its numbers in both directions', (dtype, bytes, elasticdl, tensorflow) => {
  expect(itemBytes(dtype)).toBe(bytes);
  expect(numberOfDtype(dtype, 'elasticdl')).toBe(elasticdl);
  expect(numberOfDtype(dtype, 'tensorflow')).toBe(tensorflow);
  if (elasticdl !== null) expect(dtypeOfNumber(elasticdl, 'elasticdl')).toBe(dtype);
  expect(dtypeOfNumber(tensorflow, 'tensorflow')).toBe(dtype);
});

test('numbers that stand for no type of a variable have no dtype', () => {
  for (const number of [-1, 0, 9, 14, 19]) expect(dtypeOfNumber(number, 'elasticdl')).toBeNull();
  for (const number of [-1, 0, 7, 8, 11, 12, 13, 15, 16, 18, 20, 101])
    expect(dtypeOfNumber(number, 'tensorflow')).toBeNull();
});
