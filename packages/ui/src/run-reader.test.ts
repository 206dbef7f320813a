import { crc32c, createCheckpointManager, systemClock } from '@holdfast/core';
import { CheckpointError, type RetentionPolicy, type RunManager } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { ChangeRequest } from './api.ts';
import { change } from './changes.ts';
import { RunReader } from './run-reader.ts';

const URI = 'memory://run';
const HOUR_MS = 3_600_000;

interface MadeRun {
  readonly run: RunManager;
  readonly reader: RunReader;
  /** The time of the store and of the reader goes on. */
  readonly pass: (ms: number) => void;
  /** What the page shows of each version, newest first. */
  readonly verdicts: () => Promise<string[]>;
}

/** A run of versions 1 to 4, of the same size, under these rules. */
async function makeRun(rules: RetentionPolicy): Promise<MadeRun> {
  let passedMs = 0;
  const bucket = new MemoryBucket({ crc32c, clock: { nowMs: () => Date.now() + passedMs } });
  const open = () => createCheckpointManager({ store: new MemoryStore(bucket) });
  const run = open();
  for (const version of [1, 2, 3, 4])
    await run.save({ version, buffers: { a: new Uint8Array(100).fill(version) } });
  await run.admin.setRetention(rules);
  const clock = { ...systemClock, monotonicMs: () => passedMs, nowMs: () => Date.now() + passedMs };
  const reader = new RunReader(open(), URI, clock);
  onTestFinished(async () => {
    await Promise.all([run.close(), reader.close()]);
  });
  const pass = (ms: number) => (passedMs += ms);
  const verdicts = async () => (await reader.rows()).map(({ version, verdict }) => `${version} ${verdict}`);
  return { run, reader, pass, verdicts };
}

/** The lines of the plan, and what its confirmation resolves or rejects with. */
async function plan(reader: RunReader, request: Partial<ChangeRequest>) {
  const { signal } = new AbortController();
  const asked = { uri: URI, action: 'retire', reason: 'tidy', ...request } as ChangeRequest;
  const planned = await change(reader, asked, signal);
  if (!('digest' in planned)) throw new Error('it was carried out without a confirmation');
  const confirm = () => change(reader, { ...asked, confirm: planned.digest }, signal);
  return { lines: planned.lines, confirm };
}

describe('what retention would do follows the time, although the catalog does not change', () => {
  test('a grace that ends', async () => {
    const { run, reader, pass, verdicts } = await makeRun({ keepLast: 3, graceMs: HOUR_MS });
    await run.admin.collect();
    expect(await verdicts()).toEqual(['4 keep', '3 keep', '2 keep', '1 wait']);
    const before = await reader.view();
    expect(before.retention).toMatchObject({ counts: { wait: 1, remove: 0 } });
    pass(2 * HOUR_MS);
    expect(await verdicts()).toEqual(['4 keep', '3 keep', '2 keep', '1 remove']);
    const after = await reader.view();
    expect(after.seq).toBe(before.seq);
    expect(after.revision).not.toBe(before.revision);
    expect(after.retention).toMatchObject({ counts: { wait: 0, remove: 1 } });
  });

  test('a rule by age', async () => {
    const { reader, pass, verdicts } = await makeRun({ keepForMs: HOUR_MS });
    expect(await verdicts()).toEqual(['4 keep', '3 keep', '2 keep', '1 keep']);
    const { points, revision } = await reader.view();
    expect(points.filter(({ isKept }) => isKept)).toHaveLength(4);
    pass(10_000);
    expect((await reader.view()).revision).toBe(revision);
    pass(2 * HOUR_MS);
    // The rules now keep nothing, so no plan can be made.
    expect(await verdicts()).toEqual(['4 null', '3 null', '2 null', '1 null']);
    expect((await reader.view()).retention).toMatchObject({ code: 'InvalidArgument' });
  });

  test('a plan that could not be made once is made with the next look', async () => {
    const { reader, pass, verdicts } = await makeRun({ keepLast: 3 });
    vi.spyOn(reader.manager.admin, 'planRetention').mockRejectedValueOnce(
      new CheckpointError('Unavailable', 'busy'),
    );
    expect((await reader.view()).retention).toEqual({ code: 'Unavailable', message: 'busy' });
    pass(10_000);
    expect(await verdicts()).toEqual(['4 keep', '3 keep', '2 keep', '1 retire']);
  });

  test('a plan that no time changes is made once, and no version is read again', async () => {
    const { run, reader, pass } = await makeRun({ keepLast: 3 });
    const planned = vi.spyOn(reader.manager.admin, 'planRetention');
    const listed = vi.spyOn(reader.manager, 'list');
    const { revision } = await reader.view();
    listed.mockClear();
    for (let look = 0; look < 3; look++) {
      pass(10_000);
      expect((await reader.view()).revision).toBe(revision);
    }
    expect([planned.mock.calls.length, listed.mock.calls.length]).toEqual([1, 0]);
    await run.admin.pin(1, 'paper');
    pass(10_000);
    expect((await reader.view()).revision).not.toBe(revision);
    expect(planned).toHaveBeenCalledTimes(2);
  });
});

describe('a change', () => {
  test('is carried out as it was confirmed, or not at all if a grace has ended since', async () => {
    const { run, reader, pass, verdicts } = await makeRun({ keepLast: 3, graceMs: HOUR_MS });
    await run.admin.collect();
    const early = await plan(reader, {});
    expect(early.lines).toContain('Remove for good, because their grace is over: no version.');
    pass(2 * HOUR_MS);
    await expect(early.confirm()).rejects.toMatchObject({
      code: 'Conflict',
      message: expect.stringContaining('has changed'),
    });
    expect((await run.list()).map(({ version }) => version)).toEqual([4n, 3n, 2n, 1n]);
    const late = await plan(reader, {});
    expect(late.lines).toContain('Remove for good, because their grace is over: 1.');
    expect(await late.confirm()).toEqual({ done: '0 retired, 1 removed.' });
    expect(await verdicts()).toEqual(['4 keep', '3 keep', '2 keep']);
  });

  test('says that versions without a grace are removed at once', async () => {
    const { run, reader } = await makeRun({ keepLast: 3, graceMs: 0 });
    const { lines, confirm } = await plan(reader, {});
    expect(lines.slice(1, 3)).toEqual([
      'Retire 1.',
      'They have no grace, so they are removed for good at once.',
    ]);
    expect(await confirm()).toEqual({ done: '1 retired, 1 removed.' });
    expect((await run.list()).map(({ version }) => version)).toEqual([4n, 3n, 2n]);
  });

  test('names what was done if a reader holds a version that the plan removes', async () => {
    const { run, reader } = await makeRun({ keepLast: 3, graceMs: 0 });
    await run.admin.lease({ version: 1, ttlMs: HOUR_MS });
    const { confirm } = await plan(reader, {});
    expect(await confirm()).toEqual({
      done: '1 retired, 0 removed. The plan had others: the run has changed meanwhile, or readers hold leases. Retired: 1. Removed: no version.',
    });
  });

  test('is not planned on what an earlier look has shown if the store does not answer now', async () => {
    const { reader } = await makeRun({ keepLast: 3 });
    await reader.view();
    vi.spyOn(reader.manager.admin, 'log').mockRejectedValue(new CheckpointError('Unavailable', 'gone'));
    await expect(plan(reader, {})).rejects.toMatchObject({ code: 'Unavailable', message: 'gone' });
  });

  test('an annotation records its reason in the metadata and in the log, under a name of its own', async () => {
    const { run, reader } = await makeRun({ keepLast: 3 });
    const about = { action: 'annotate', version: '4', lineage: 1, reason: 'seen by hand' } as const;
    const { lines, confirm } = await plan(reader, { ...about, name: 'quality', text: 'good' });
    expect(lines).toEqual([
      'Record in the metadata of version 4:',
      'quality = good',
      'reason = seen by hand',
    ]);
    await confirm();
    expect((await (await run.get(4))?.details())?.metadata).toEqual({
      quality: 'good',
      reason: 'seen by hand',
    });
    const [entry] = await run.admin.log({ limit: 1 });
    expect(entry).toMatchObject({ kind: 'annotate', reason: expect.stringContaining('seen by hand') });
    await expect(plan(reader, { ...about, name: 'reason', text: 'mine' })).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: expect.stringMatching(/^name: "reason" is .* choose another name$/),
    });
  });
});
