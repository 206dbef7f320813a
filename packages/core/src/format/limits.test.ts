import { expect, test } from 'vitest';
import { RECORD_BYTES_MAX, recordBytesMax } from './limits.ts';

test.each([
  ['run.json', 2 ** 20],
  ['writers/1.1/0.0.json', 2 ** 16],
  ['leases/7.1.1/a-0f.json', 2 ** 16],
  ['uploads/7.1.1.0-0f.json', 2 ** 16],
  ['elections/00000000000000000001.json', 2 ** 16],
  ['catalog/00000000000000000001.json', RECORD_BYTES_MAX],
  ['version_7/1.1/receipts/0.0.json', RECORD_BYTES_MAX],
])('a read of %s fetches no more than its kind may have: %d bytes', (key, bytesMax) => {
  expect(recordBytesMax(key)).toBe(bytesMax);
});
