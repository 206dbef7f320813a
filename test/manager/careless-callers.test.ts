import type { Logger, ProgressEvent } from '@holdfast/core';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

describe('what callers give to be told', () => {
  const thrower = () => {
    throw new Error('the screen is gone');
  };

  test.each(['joined', 'planned', 'bytes', 'committed'])(
    'an onProgress that throws at "%s" changes nothing, and is logged once',
    async (type) => {
      const warnings: string[] = [];
      const logger: Logger = { log: (level, message) => void (level === 'warn' && warnings.push(message)) };
      await using manager = open(newBucket(), { logger });
      const onProgress = (event: ProgressEvent) => (event.type === type ? thrower() : undefined);
      const buffers = { a: bytes(100_000), b: bytes(10) };
      expect(await manager.save({ version: 1, buffers, onProgress })).toMatchObject({ isCommitted: true });
      expect(warnings).toEqual(['onProgress threw an error; the call continues']);
    },
  );

  test('a logger that throws changes nothing', async () => {
    await using manager = open(newBucket(), { logger: { log: thrower } });
    const saved = await manager.save({ version: 1, buffers: { a: bytes(10) }, onProgress: thrower });
    expect(saved.isCommitted).toBe(true);
  });
});

test('memory that was transferred away before the save is refused, and not saved as nothing', async () => {
  await using manager = open(newBucket());
  const weights = bytes(1000);
  structuredClone(weights, { transfer: [weights.buffer as ArrayBuffer] });
  for (const given of [{ buffers: { weights } }, { files: { weights } }]) {
    expect(await failure(manager.save({ version: 1, ...given }))).toMatch(
      /^InvalidArgument: the memory of "weights" was transferred /,
    );
  }
  expect(await manager.list()).toEqual([]);
});

test('memory that is transferred away during the save is noticed, and not saved as nothing', async () => {
  await using manager = open(newBucket());
  const weights = bytes(300_000);
  const away = () => structuredClone(weights, { transfer: [weights.buffer as ArrayBuffer] });
  const onProgress = ({ type }: { type: string }) => {
    if (type === 'planned') away();
  };
  expect(await failure(manager.save({ version: 1, buffers: { weights }, onProgress }))).toBe(
    'SourceChanged: the memory of the source had 300000 bytes and now has 0',
  );
  expect(await manager.list()).toEqual([]);
});

test('memory that shrinks during the save is noticed', async () => {
  await using manager = open(newBucket());
  const buffer = new ArrayBuffer(300_000, { maxByteLength: 300_000 });
  const onProgress = ({ type }: { type: string }) => {
    if (type === 'planned') buffer.resize(1000);
  };
  const weights = new Uint8Array(buffer);
  expect(await failure(manager.save({ version: 1, buffers: { weights }, onProgress }))).toBe(
    'SourceChanged: the memory of the source had 300000 bytes and now has 1000',
  );
});

test('buffers of a restore that share memory are refused, and views side by side are not', async () => {
  await using manager = open(newBucket());
  await manager.save({ version: 1, buffers: { a: bytes(100, 1), b: bytes(100, 2), empty: bytes(0) } });
  const memory = new Uint8Array(200);
  const view = (start: number) => memory.subarray(start, start + 100);
  for (const [a, b] of [
    [view(0), view(0)],
    [view(0), view(99)],
    [view(60), view(0)],
  ] as const)
    expect(await failure(manager.restore({ to: { a, b } }))).toMatch(
      /^InvalidArgument: the buffers for "(a|b)" and "(a|b)" share memory/,
    );
  await manager.restore({ to: { b: view(100), a: view(0), empty: memory.subarray(50, 50) } });
  expect([view(0), view(100)]).toEqual([bytes(100, 1), bytes(100, 2)]);
});
