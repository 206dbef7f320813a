/**
 * A source with damaged bytes or records. The mirror finds and names the damage, and never copies
 * it.
 */

import type { RunManager } from '@holdfast/core/contract';
import { MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { checkInvariants, viewOfBucket } from '../crash/invariants.ts';
import { failure } from '../manager/memory-run.ts';
import { contentOf, open, saveAll, type TwoRuns, twoRuns } from './two-runs.ts';

function flip(data: Uint8Array): Uint8Array {
  const at = data.length - 1;
  data[at] = (data[at] as number) ^ 1;
  return data;
}

function keyOf(runs: TwoRuns, pattern: RegExp): string {
  return runs.from.keys().find((key) => pattern.test(key)) as string;
}

async function damaged(pattern: RegExp, change: (runs: TwoRuns, key: string) => void): Promise<TwoRuns> {
  const runs = twoRuns();
  await saveAll(runs.from, [1n, 2n, 3n]);
  change(runs, keyOf(runs, pattern));
  return runs;
}

const KINDS: readonly [string, RegExp, (runs: TwoRuns, key: string) => void, string][] = [
  [
    'a payload with a flipped bit',
    /_2\/.*two-parts/,
    (runs, key) => runs.from.damage(key, flip),
    'w0/two-parts.bin bytes 65,536–69,999 do not match their checksum',
  ],
  ['a small payload with one', /_2\/.*tag$/, (runs, key) => runs.from.damage(key, flip), 'w0/tag bytes 0–4'],
  [
    'a payload that is too short',
    /_2\/.*two-parts/,
    (runs, key) => runs.from.damage(key, (data) => data.subarray(0, 69_000)),
    'ends after 69000 of 70000 bytes',
  ],
  ['a payload that is gone', /_2\/.*tag$/, (runs, key) => runs.from.remove(key), '"w0/tag" is missing'],
  ['a manifest with a flipped bit', /_2\/.*manifest/, (runs, key) => runs.from.damage(key, flip), 'checksum'],
  ['a manifest that is gone', /_2\/.*manifest/, (runs, key) => runs.from.remove(key), 'is missing'],
];

describe.each(KINDS)('%s', (_, pattern, change, message) => {
  test('ends the mirror with Corrupt, which says where; nothing of that version is committed', async () => {
    const runs = await damaged(pattern, change);
    await using from = open(runs.from);
    await using to = open(runs.to);
    const said = await failure(to.admin.mirrorFrom(from));
    expect(said).toContain('Corrupt: version 2 of memory://from is damaged: ');
    expect(said).toContain(message);
    expect((await to.list()).map((each) => each.version)).toEqual([1n]);
    await checkInvariants(viewOfBucket(runs.to), []);
  });

  test('is passed over where that is asked for, and said', async () => {
    const runs = await damaged(pattern, change);
    await using from = open(runs.from);
    await using to = open(runs.to);
    const { copied, skipped } = await to.admin.mirrorFrom(from, { onCorrupt: 'skip' });
    expect(copied.map((each) => each.version)).toEqual([1n, 3n]);
    expect(skipped).toEqual([{ version: 2n, reason: expect.stringContaining(message) }]);
    await checkInvariants(viewOfBucket(runs.to), []);
  });
});

test('a version that is there already and damaged in the source since is found by its manifest', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n, 2n]);
  await using from = open(runs.from);
  await using to = open(runs.to);
  await to.admin.mirrorFrom(from);
  runs.from.damage(keyOf(runs, /_1\/.*manifest/), flip);
  expect(await failure(to.admin.mirrorFrom(from))).toContain('version 1 of memory://from is damaged');
  expect(await to.admin.mirrorFrom(from, { onCorrupt: 'skip' })).toMatchObject({ present: [2n] });
});

test('a damaged record of the destination is not blamed on the source, and not passed over', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n]);
  await using from = open(runs.from);
  await using to = open(runs.to);
  await to.admin.mirrorFrom(from);
  runs.to.damage(runs.to.keys().find((key) => key.includes('/manifest-')) as string, flip);
  const said = await failure(to.admin.mirrorFrom(from, { onCorrupt: 'skip' }));
  expect(said).toContain('Corrupt');
  expect(said).not.toContain('memory://from');
});

describe('bits that flip on the way', () => {
  /**
   * A store that flips a bit of the data read, for the reads that `isHit` selects. It flips the bit
   * some steps of the engine after the answer.
   */
  function flipping(runs: TwoRuns, isHit: (isFirst: boolean) => boolean, laterSteps = 0): MemoryStore {
    const seen = new Set<string>();
    return new (class extends MemoryStore {
      override async readInto(...args: Parameters<MemoryStore['readInto']>) {
        const [key, offsetBytes, buffer] = args;
        const count = await super.readInto(...args);
        const isFirst = !seen.has(`${key} ${offsetBytes}`);
        seen.add(`${key} ${offsetBytes}`);
        if (!isHit(isFirst)) return count;
        if (laterSteps === 0) flip(buffer);
        else void after(laterSteps).then(() => flip(buffer));
        return count;
      }
    })(runs.from);
  }

  async function after(steps: number): Promise<void> {
    for (let step = 0; step < steps; step++) await undefined;
  }

  test('once: the part is read again, and the copy is right', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n]);
    await using from = open(flipping(runs, (isFirst) => isFirst));
    await using to = open(runs.to);
    const repeats: string[] = [];
    await to.admin.mirrorFrom(from, {
      onProgress: (event) => event.type === 'retry' && repeats.push(event.detail),
    });
    expect(repeats.length).toBe(3);
    expect(await contentOf(to)).toEqual(await contentOf(open(runs.from)));
  });

  test('I9: at whatever moment after the read, no wrong checkpoint is committed', async () => {
    const outcomes = new Set<string>();
    const { from: saved } = twoRuns();
    await saveAll(saved, [1n]);
    const original = await contentOf(open(saved));
    for (let steps = 1; steps < 40; steps++) {
      const runs = { from: saved, to: twoRuns().to };
      await using from = open(flipping(runs, () => true, steps));
      await using to = open(runs.to);
      const outcome = await to.admin.mirrorFrom(from).then(
        () => 'copied',
        (error: Error) => error.message,
      );
      outcomes.add(outcome.replaceAll(/[0-9a-f]{8,}/g, ''));
      const copied = await contentOf(to);
      expect(copied).toEqual(outcome === 'copied' ? original : []);
      await using next = open(runs.to); // the remains are no worse
      await next.admin.mirrorFrom(open(saved));
      expect(await contentOf(next)).toEqual(original);
    }
    expect([...outcomes].join('\n')).toContain("changed in this machine's memory");
  });
});

describe('parts that are larger than the memory for one', () => {
  const LARGE = { bufferBytes: 64 * 1024 * 1024, partSizeBytesMin: 16 * 1024 * 1024 };
  const SMALL = { bufferBytes: 16 * 1024 * 1024, partSizeBytesMin: 64 * 1024, retryDelayMsBase: 1 };
  const LARGE_FILE = Buffer.alloc(20_000_000, 'twenty million bytes, more or less');

  async function savedInLargeParts(): Promise<TwoRuns> {
    const runs = twoRuns();
    await using manager = open(runs.from, { settings: LARGE });
    await manager.save({ version: 1, buffers: { 'large.bin': LARGE_FILE } });
    return runs;
  }

  test('are copied all the same, and compared as a whole before the copy appears', async () => {
    const runs = await savedInLargeParts();
    await using from = open(runs.from, { settings: SMALL });
    await using to = open(runs.to, { settings: SMALL });
    await to.admin.mirrorFrom(from);
    expect(await restored(to)).toBe(true);
    expect((await to.admin.verify()).problems).toEqual([]);
  });

  test('are Corrupt with both checksums where a bit is wrong, after the file was sent again in vain', async () => {
    const runs = await savedInLargeParts();
    runs.from.damage(keyOf(runs, /large/), flip);
    await using from = open(runs.from, { settings: SMALL });
    await using to = open(runs.to, { settings: SMALL });
    const said = await failure(to.admin.mirrorFrom(from));
    expect(said).toContain('version 1 of memory://from is damaged');
    expect(said).toMatch(/expected [0-9a-f]{8}, found [0-9a-f]{8}/);
    expect(runs.to.openUploads()).toEqual([]);
    expect(runs.to.keys().filter((key) => key.includes('large'))).toEqual([]);
  });

  async function restored(manager: RunManager): Promise<boolean> {
    const to = { 'large.bin': new Uint8Array(LARGE_FILE.length) };
    await manager.restore({ to });
    return Buffer.compare(to['large.bin'], LARGE_FILE) === 0;
  }
});
