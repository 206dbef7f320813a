/**
 * Two mirrors copy one run to one place. The one that joined last completes the copy, whatever the
 * other has done before.
 */

import { describe, expect, test } from 'vitest';
import { checkInvariants, viewOfBucket } from '../crash/invariants.ts';
import { failure } from '../manager/memory-run.ts';
import { takeOver } from './changed-runs.ts';
import { contentOf, interfered, open, saveAll, type TwoRuns, twoRuns } from './two-runs.ts';

/**
 * `later` pauses before its first create that `matches`. In the meantime another mirror copies
 * version 1. It then waits before version 2 until `later` has ended.
 */
async function overtaking(runs: TwoRuns, matches: (key: string) => boolean) {
  await using from = open(runs.from);
  const isAtSecond = Promise.withResolvers<void>();
  const isOver = Promise.withResolvers<void>();
  const isOfSecond = (_: string, key: string) => key.startsWith('version_2/');
  const wait = () => {
    isAtSecond.resolve();
    return isOver.promise;
  };
  await using earlier = open(interfered(runs.to, isOfSecond, wait));
  let earlierEnds: Promise<string> | undefined;
  const copyFirst = () => {
    earlierEnds = failure(earlier.admin.mirrorFrom(from));
    return isAtSecond.promise;
  };
  await using later = open(
    interfered(runs.to, (operation, key) => operation === 'create' && matches(key), copyFirst),
  );
  try {
    const result = await later.admin.mirrorFrom(from);
    expect(await contentOf(later)).toEqual(await contentOf(from));
    return { result, earlierEnds };
  } finally {
    isOver.resolve();
    await earlierEnds?.catch(() => undefined);
    await checkInvariants(viewOfBucket(runs.to), []);
  }
}

describe('two mirrors at once', () => {
  test.each([
    ['its process has registered', (key: string) => key.startsWith('writers/')],
    ['its attempt has taken the run over', (key: string) => key.startsWith('catalog/')],
  ])('the later one goes on where a version is copied before %s', async (_, matches) => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n, 3n]);
    const { result, earlierEnds } = await overtaking(runs, matches);
    expect(result.present).toEqual([1n]);
    expect(result.copied.map((each) => each.version)).toEqual([2n, 3n]);
    expect(await earlierEnds).toContain('Fenced');
  });

  test('one that was overtaken ends with Fenced also where it would begin an attempt of other writers', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n]);
    await saveAll(runs.from, [2n], { attempt: 'job-1', count: 2 });
    const isLease = (_: string, key: string) => key.startsWith('leases/2.');
    await using from = open(interfered(runs.from, isLease, () => takeOver(runs.to)));
    await using to = open(runs.to);
    expect(await failure(to.admin.mirrorFrom(from))).toContain('Fenced');
    expect((await to.admin.log({ limit: 1 }))[0]).toMatchObject({ kind: 'takeover', attempt: 'another' });
  });

  test('I4, I7: each is told the truth, and the run is whole', async () => {
    for (let round = 0; round < 5; round++) {
      const runs = twoRuns();
      await saveAll(runs.from, [1n, 2n, 3n]);
      const mirrorOnce = async () => {
        await using from = open(runs.from);
        await using to = open(runs.to);
        return await to.admin.mirrorFrom(from).then(
          ({ copied, present }) => [...present, ...copied.map((each) => each.version)].join(),
          (error: { code: string }) => error.code,
        );
      };
      const told = await Promise.all([mirrorOnce(), mirrorOnce()]);
      expect(told).toContain('1,2,3');
      for (const each of told) expect(['1,2,3', 'Fenced']).toContain(each);
      await checkInvariants(viewOfBucket(runs.to), []);
    }
  });
});
