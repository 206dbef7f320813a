import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';
import { safetensors, shardingOf } from './safetensors-bytes.ts';

describe('the tensors of a checkpoint', () => {
  test('tensors of all writers come from the first part of each file; other files are only named', async () => {
    const bucket = newBucket();
    const row = (writer: number) =>
      safetensors(
        {
          w: { shape: [2, 600_000], data: bytes(1_200_000, writer) },
          b: { shape: [3], data: bytes(3) },
        },
        shardingOf({ w: [2 * writer, 0] }),
      );
    const writers = [0, 1].map((writer) =>
      open(bucket, { attempt: 'job', writer: { index: writer, count: 2 } }),
    );
    await Promise.all(
      writers.map((manager, writer) =>
        manager.save({
          version: 3,
          buffers: { [`rank-${writer}.safetensors`]: row(writer), [`rank-${writer}.bin`]: bytes(9) },
        }),
      ),
    );
    const reader = open(bucket);
    const { id, files, bytesRead } = await reader.admin.inspect();
    expect(id.version).toBe(3n);
    expect(files.map(({ name, writer, note }) => [name, writer, note])).toEqual([
      ['rank-0.bin', 0, ''],
      ['rank-0.safetensors', 0, ''],
      ['rank-1.bin', 1, ''],
      ['rank-1.safetensors', 1, ''],
    ]);
    expect(
      files.map(({ tensors }) => tensors?.map(({ fileOffsetBytes: _, ...tensor }) => tensor) ?? null),
    ).toEqual([
      null,
      [
        { name: 'w', dtype: 'U8', shape: [2, 600_000], sizeBytes: 1_200_000, offsets: [0, 0] },
        { name: 'b', dtype: 'U8', shape: [3], sizeBytes: 3, offsets: null },
      ],
      null,
      [
        { name: 'w', dtype: 'U8', shape: [2, 600_000], sizeBytes: 1_200_000, offsets: [2, 0] },
        { name: 'b', dtype: 'U8', shape: [3], sizeBytes: 3, offsets: null },
      ],
    ]);
    expect(bytesRead).toBeLessThan(1_200_000);
    for (const manager of [...writers, reader]) await manager.close();
  });

  test('a header that is longer than what is read first', async () => {
    const names = Array.from({ length: 6_000 }, (_, index) => `layers.${index}.weight`);
    const whole = safetensors(
      Object.fromEntries(names.map((name) => [name, { shape: [1], data: bytes(1) }])),
    );
    expect(whole.byteLength).toBeGreaterThan(300 * 1024);
    const manager = open(newBucket(), {
      settings: { bufferBytes: 16 * 1024 * 1024, partSizeBytesMin: 64 * 1024 },
    });
    await manager.save({ version: 1, buffers: { 'm.safetensors': whole } });
    const { files } = await manager.admin.inspect({ version: 1 });
    expect(files[0]?.tensors?.map(({ name }) => name)).toEqual(names);
    await manager.close();
  });

  test.each([
    ['no JSON', '{'],
    ['a list', '[1]'],
    ['of another tensor', JSON.stringify({ other: { saved_offsets: [1] } })],
    ['with other dimensions', JSON.stringify({ a: { saved_offsets: [1, 2] } })],
    ['with a negative place', JSON.stringify({ a: { saved_offsets: [-1] } })],
  ])('what a header says of parts counts only if it can be understood: %s', async (_, sharding) => {
    const manager = open(newBucket());
    const file = safetensors({ a: { shape: [4], data: bytes(4) } }, { DCP_SHARDING_INFO: sharding });
    await manager.save({ version: 1, buffers: { 'm.safetensors': file } });
    const { files } = await manager.admin.inspect();
    const place = { offsets: null, fileOffsetBytes: file.byteLength - 4 };
    expect(files[0]?.tensors).toEqual([{ name: 'a', dtype: 'U8', shape: [4], sizeBytes: 4, ...place }]);
    await manager.close();
  });

  test('a file that only has the name of one is noted, and the others are shown', async () => {
    const manager = open(newBucket());
    const good = safetensors({ a: { shape: [4], data: bytes(4) } });
    await manager.save({ version: 1, buffers: { 'a.safetensors': bytes(40), 'b.safetensors': good } });
    const { files } = await manager.admin.inspect();
    expect(files.map(({ tensors }) => tensors?.length ?? null)).toEqual([null, 1]);
    expect(files[0]?.note).toMatch(/^it is not read as safetensors: its header /);
    await manager.close();
  });

  test('damage in a header is Corrupt; a version that is not there is NotFound; the lease is released', async () => {
    const bucket = newBucket();
    const manager = open(bucket);
    const file = safetensors({ a: { shape: [4], data: bytes(4) } });
    await manager.save({ version: 1, buffers: { 'm.safetensors': file } });
    const key = bucket.keys().find((each) => each.endsWith('/m.safetensors')) ?? '';
    bucket.damage(key, (old) => old.with(12, (old[12] as number) ^ 1));
    expect(await failure(manager.admin.inspect())).toMatch(/^Corrupt: /);
    expect(await failure(manager.admin.inspect({ version: 2 }))).toMatch(/^NotFound: /);
    expect(bucket.keys().filter((each) => each.startsWith('leases/'))).toEqual([]);
    await manager.close();
  });
});
