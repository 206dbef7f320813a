/** Arguments of callers are checked before any request: a record could not hold invalid ones. */

import { METADATA_BYTES_MAX, METRIC_COUNT_MAX, METRIC_NAME_LENGTH_MAX, SPAN_MS_MAX } from '@holdfast/core';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

describe('I11: numbers out of range are refused by name, and nothing was sent', () => {
  test.each([0, 65_537, 1e9, 1.5])('%d writers', (count) => {
    expect(() => open(newBucket(), { attempt: 'a', writer: { index: 0, count } })).toThrow(
      `the writer count is ${count}; it takes a whole number from 1 to 65536`,
    );
  });

  const many = Object.fromEntries(Array.from({ length: METRIC_COUNT_MAX + 1 }, (_, at) => [`m${at}`, at]));
  test.each([
    ['many metrics', { metrics: many }, 'there are 257 metrics; a checkpoint takes at most 256'],
    [
      'a long name',
      { metrics: { ['m'.repeat(METRIC_NAME_LENGTH_MAX + 1)]: 1 } },
      'has 257 characters; it takes at most 256',
    ],
    [
      'much metadata',
      { metadata: { note: 'ü'.repeat(METADATA_BYTES_MAX / 2) } },
      'the metadata has 1048587 bytes; a save takes at most 1048576',
    ],
  ])('%s', async (_what, meta, message) => {
    const bucket = newBucket();
    const manager = open(bucket);
    expect(await failure(manager.save({ version: 1, buffers: { a: bytes(1) }, ...meta }))).toContain(
      `InvalidArgument: `,
    );
    expect(await failure(manager.save({ version: 1, buffers: { a: bytes(1) }, ...meta }))).toContain(message);
    expect(bucket.keys().filter((key) => key.startsWith('version_'))).toEqual([]);
    await manager.close();
  });

  test('as many as there may be are saved', async () => {
    const manager = open(newBucket());
    const { m0: _, ...metrics } = many;
    const metadata = { note: 'x'.repeat(METADATA_BYTES_MAX - 20) };
    await manager.save({ version: 1, buffers: { a: bytes(1) }, metrics, metadata });
    const found = await manager.list();
    expect(found.map((each) => Object.keys(each.metrics).length)).toEqual([METRIC_COUNT_MAX]);
    await manager.close();
  });

  test.each(['keepEveryMs', 'keepForMs', 'graceMs'])('rule %s', async (rule) => {
    const manager = open(newBucket());
    await manager.save({ version: 1, buffers: { a: bytes(1) } });
    await manager.admin.setRetention({ [rule]: SPAN_MS_MAX });
    expect(await failure(manager.admin.setRetention({ [rule]: SPAN_MS_MAX + 1 }))).toMatch(
      new RegExp(`^InvalidArgument: retention rule ${rule} is .* to ${SPAN_MS_MAX}$`),
    );
    await manager.close();
  });
});
