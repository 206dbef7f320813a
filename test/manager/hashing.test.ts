/** A save computes BLAKE3 only where it may spare the sending of a file. */

import { blake3 } from '@holdfast/core/internal/format/index';
import { describe, expect, test } from 'vitest';
import { countHashedBytes } from '../transfer/hashed-bytes.ts';
import { bytes, failure, newBucket, open } from './memory-run.ts';
import {
  BOTH,
  basesOf,
  expectToHold,
  hashOf,
  keysOf,
  LARGE,
  NO_HASH,
  runWith,
  SMALL,
  writer,
} from './referring-run.ts';

const CHANGED = { large: bytes(300_000, 3), small: bytes(700, 4) };

describe('what is hashed', () => {
  test('nothing at first, then an unchanged file once at each save; the third sends nothing', async () => {
    using hashed = countHashedBytes();
    const bucket = newBucket();
    const { manager, sent } = writer(bucket);
    const save = async (version: number) => {
      const before = sent();
      const { referencedBytes } = await manager.save({ version, buffers: BOTH });
      return { referencedBytes, hashedBytes: hashed.take(), hasSent: sent() > before };
    };
    expect(await save(1)).toEqual({ referencedBytes: 0, hashedBytes: 0, hasSent: true });
    expect(await save(2)).toEqual({ referencedBytes: 0, hashedBytes: 300_700, hasSent: true });
    expect(await save(3)).toEqual({ referencedBytes: 300_700, hashedBytes: 300_700, hasSent: false });
    expect(await save(4)).toEqual({ referencedBytes: 300_700, hashedBytes: 300_700, hasSent: false });
    expect([basesOf(bucket, 3), basesOf(bucket, 4)]).toEqual([[2n], [3n]]);
    await manager.close();
    await expectToHold(bucket, 4, BOTH);
  });

  test.each([
    ['was never hashed', 1],
    ['was hashed', 2],
    ['was referred to', 3],
  ])('not a byte of files that have changed, where the last one %s', async (_, saves) => {
    using hashed = countHashedBytes();
    const bucket = newBucket();
    await using manager = open(bucket);
    for (let version = 1; version <= saves; version += 1) await manager.save({ version, buffers: BOTH });
    hashed.take();
    await manager.save({ version: saves + 1, buffers: CHANGED });
    expect([hashed.take(), hashOf(bucket, saves + 1)]).toEqual([0, NO_HASH]);
    await expectToHold(bucket, saves + 1, CHANGED);
  });

  test('a stream is always sent and never hashed: the second file like it is not sent', async () => {
    const bucket = await runWith({ a: LARGE });
    async function* chunks() {
      yield LARGE;
    }
    await using manager = open(bucket);
    expect((await manager.save({ version: 2, files: { a: chunks() } })).referencedBytes).toBe(0);
    expect(hashOf(bucket, 2)).toEqual(NO_HASH);
    expect((await manager.save({ version: 3, buffers: { a: LARGE } })).referencedBytes).toBe(0);
    expect(hashOf(bucket, 3)).toEqual(blake3(LARGE));
    expect((await manager.save({ version: 4, buffers: { a: LARGE } })).referencedBytes).toBe(300_000);
    expect(basesOf(bucket, 4)).toEqual([3n]);
  });

  test('nor is a checkpoint from create() hashed', async () => {
    const bucket = newBucket();
    await using manager = open(bucket);
    const checkpoint = await manager.create(1);
    const output = checkpoint.openOutputStream('a').getWriter();
    await output.write(LARGE);
    await output.close();
    await checkpoint.commit();
    expect(hashOf(bucket, 1)).toEqual(NO_HASH);
    expect((await manager.save({ version: 2, buffers: { a: LARGE } })).referencedBytes).toBe(0);
    // The parts of the stream had another size, so only a version 3 shows that hashing pays.
    expect(hashOf(bucket, 2)).toEqual(NO_HASH);
    expect((await manager.save({ version: 3, buffers: { a: LARGE } })).referencedBytes).toBe(0);
    expect((await manager.save({ version: 4, buffers: { a: LARGE } })).referencedBytes).toBe(300_000);
  });

  test('dedupe: off, of a save or of the manager: all is sent and nothing is hashed', async () => {
    const bucket = await runWith(BOTH);
    await using plain = open(bucket, { dedupe: 'off' });
    expect((await plain.save({ version: 2, buffers: BOTH })).referencedBytes).toBe(0);
    expect([hashOf(bucket, 2), basesOf(bucket, 2)]).toEqual([NO_HASH, []]);
    expect((await plain.save({ version: 3, buffers: BOTH, dedupe: 'auto' })).referencedBytes).toBe(0);
    expect((await plain.save({ version: 4, buffers: BOTH, dedupe: 'auto' })).referencedBytes).toBe(300_700);
    // New objects are preferred to those of version 1, which may be why all was sent.
    expect(basesOf(bucket, 4)).toEqual([3n]);
    await using deduping = open(bucket);
    expect((await deduping.save({ version: 5, buffers: BOTH, dedupe: 'off' })).referencedBytes).toBe(0);
    const bad = deduping.save({ version: 6, buffers: BOTH, dedupe: 'some' as 'auto' });
    expect(await failure(bad)).toBe('InvalidArgument: dedupe is "some"; it takes auto, off');
    expect(() => open(bucket, { dedupe: 'some' as 'auto' })).toThrow('dedupe is "some"');
  });
});

describe('the newest copy of a file is preferred', () => {
  test('to an object that was lost: what is sent in its place is hashed, and the next save refers to it', async () => {
    const bucket = await runWith(BOTH, BOTH);
    bucket.remove(keysOf(bucket, /^version_1\/.*\/large$/)[0] as string);
    await using manager = open(bucket);
    const save = async (version: number) =>
      (await manager.save({ version, buffers: BOTH, onStale: 'off' })).referencedBytes;
    expect([await save(3), await save(4)]).toEqual([SMALL.length, 300_700]);
    expect(keysOf(bucket, /^version_\d+\/.*\/large$/)).toEqual([expect.stringMatching(/^version_3/)]);
    await expectToHold(bucket, 4, BOTH);
  });

  test('but within a checkpoint to any copy with a hash, whichever writer sent it', async () => {
    const bucket = newBucket();
    async function* chunks() {
      yield LARGE;
    }
    const [first, second] = [0, 1].map((index) =>
      open(bucket, { attempt: 'job', writer: { index, count: 2 } }),
    );
    const save = async (version: number) => {
      const [, saved] = await Promise.all([
        first?.save({ version, files: { a: chunks() } }),
        second?.save({ version, buffers: { b: LARGE } }),
      ]);
      return saved?.referencedBytes;
    };
    expect([await save(1), await save(2), await save(3), await save(4)]).toEqual([0, 0, 300_000, 300_000]);
    await first?.close();
    await second?.close();
  });
});
