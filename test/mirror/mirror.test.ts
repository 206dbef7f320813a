/** What a mirror copies, what it finds there already, and what it refuses. */

import { describe, expect, test } from 'vitest';
import { checkInvariants, viewOfBucket } from '../crash/invariants.ts';
import { failure } from '../manager/memory-run.ts';
import { contentOf, open, saveAll, twoRuns } from './two-runs.ts';

describe('a mirror', () => {
  test('has the same versions, files, writers, metrics, metadata and times of commit, in a run of its own', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n], { count: 2 });
    await saveAll(runs.from, [5n], { attempt: 'job-1', count: 3 });
    await using from = open(runs.from);
    await using to = open(runs.to);
    const result = await to.mirrorFrom(from);
    expect(result.copied.map((each) => each.version)).toEqual([1n, 2n, 5n]);
    expect(result.copied[0]).toMatchObject({ fileCount: 4, sizeBytes: 140_010, reusedBytes: 0 });
    expect(result).toMatchObject({ present: [], skipped: [] });
    expect(await contentOf(to)).toEqual(await contentOf(from));
    await checkInvariants(viewOfBucket(runs.to), []);
    const [latest] = await to.list();
    expect(latest).toMatchObject({ version: 5n, isLatest: true, state: 'live' });
    expect(runs.from.keys().some((key) => key.startsWith('leases/'))).toBe(false);
  });

  test('a second time nothing is sent, and nobody is fenced', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n]);
    await using from = open(runs.from);
    await using to = open(runs.to);
    await to.mirrorFrom(from);
    const before = runs.to.keys();
    await using again = open(runs.to);
    expect(await again.mirrorFrom(from)).toEqual({ copied: [], present: [1n, 2n], skipped: [] });
    expect(runs.to.keys()).toEqual(before);
  });

  test('what was saved since is added', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n]);
    await using from = open(runs.from);
    await using to = open(runs.to);
    await to.mirrorFrom(from);
    await saveAll(runs.from, [2n], { attempt: 'job-1' });
    await using later = open(runs.to);
    expect(await later.mirrorFrom(from)).toMatchObject({ copied: [{ version: 2n }], present: [1n] });
    expect(await contentOf(to)).toEqual(await contentOf(from));
  });

  test('a version that is there with other content is a Conflict, and nothing is written', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n]);
    await saveAll(runs.to, [1n], { attempt: 'another' });
    await using from = open(runs.from);
    await using to = open(runs.to);
    const before = runs.to.keys();
    expect(await failure(to.mirrorFrom(from))).toBe(
      'Conflict: memory://from cannot be mirrored into memory://to: version 1 is here already, with other content: writer 0 has other files',
    );
    expect(runs.to.keys()).toEqual(before);
  });
});
