/** A mirror that is stopped, fenced or overtaken, and how the next one continues. */

import { systemClock } from '@holdfast/core';
import type { ObjectStore } from '@holdfast/core/contract';
import { type MemoryBucket, MemoryStore, ObservedStore } from '@holdfast/core/store';
import { FAULTS, FaultyStore, refuse, scriptedFaults } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { checkInvariants, viewOfBucket } from '../crash/invariants.ts';
import { bytes, failure, SETTINGS } from '../manager/memory-run.ts';
import { removeVersion, takeOver } from './changed-runs.ts';
import { contentOf, interfered, open, saveAll, twoRuns } from './two-runs.ts';

/** The store, and the payloads sent through it. */
function counted(bucket: MemoryBucket): { store: ObjectStore; sent: string[] } {
  const sent: string[] = [];
  const onCall = ({ operation, key }: { operation: string; key: string }) => {
    const isPayload = /^version_\d+\/\d+\.\d+\/\d+\.\d+-/.test(key);
    if (isPayload && (operation === 'create' || operation === 'complete')) sent.push(key);
  };
  return { store: new ObservedStore(new MemoryStore(bucket), { clock: systemClock, onCall }), sent };
}

describe('what an interrupted mirror has sent', () => {
  test('is used by the next one, which sends only the rest', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n], { count: 4 });
    await using from = open(runs.from);
    const plan = scriptedFaults({ operation: 'create', key: /\/receipts\//, fault: FAULTS.stopBefore });
    const victim = new FaultyStore(new MemoryStore(runs.to), plan);
    void open(victim)
      .admin.mirrorFrom(from)
      .catch(() => undefined); // `from` is closed at the end, and that ends it
    await victim.stopped;
    const left = runs.to.keys().filter((key) => /^version_1\/1\.1\/\d\.0-/.test(key));
    expect(left.length).toBe(8);
    runs.to.remove(left.find((key) => key.endsWith('/tag')) as string);

    const { store, sent } = counted(runs.to);
    await using to = open(store);
    const { copied } = await to.admin.mirrorFrom(from);
    expect(sent.length).toBe(1);
    expect(copied[0]?.reusedBytes).toBe(4 * 70_005 - 5);
    expect(await contentOf(to)).toEqual(await contentOf(from));
    await checkInvariants(viewOfBucket(runs.to), []);
  });

  test('counts as done in the progress of the next one', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n]);
    await using from = open(runs.from);
    const plan = scriptedFaults({ operation: 'create', key: /\/receipts\//, fault: FAULTS.stopBefore });
    const victim = new FaultyStore(new MemoryStore(runs.to), plan);
    void open(victim)
      .admin.mirrorFrom(from)
      .catch(() => undefined); // `from` is closed at the end, and that ends it
    await victim.stopped;
    await using to = open(runs.to);
    const done: string[] = [];
    await to.admin.mirrorFrom(from, {
      onProgress: (event) => {
        if (event.type === 'bytes' && event.doneBytes === event.totalBytes) done.push(event.name);
      },
    });
    expect(done.sort()).toEqual(['w0/tag', 'w0/two-parts.bin']);
  });

  test('is not used where it is of another size, or was not sent by a mirror of this checkpoint', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n]);
    await using from = open(runs.from);
    const plan = scriptedFaults({ operation: 'create', key: /\/receipts\//, fault: FAULTS.stopBefore });
    const victim = new FaultyStore(new MemoryStore(runs.to), plan);
    void open(victim)
      .admin.mirrorFrom(from)
      .catch(() => undefined); // `from` is closed at the end, and that ends it
    await victim.stopped;
    const find = (name: string) => runs.to.keys().find((key) => key.endsWith(name)) as string;
    const [tag, model] = [find('/tag'), find('/two-parts.bin')];
    runs.to.damage(tag, (bytes) => bytes.subarray(1));
    const bytes = runs.to.find(model)?.bytes as Uint8Array;
    runs.to.remove(model);
    runs.to.insert(model.replace(/-[0-9a-f]{16}/, `-${'0'.repeat(16)}`), bytes);
    await using to = open(runs.to);
    expect((await to.admin.mirrorFrom(from)).copied[0]?.reusedBytes).toBe(0);
    expect(await contentOf(to)).toEqual(await contentOf(from));
  });

  test('receipts that are there are taken as they are', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n], { count: 3 });
    await using from = open(runs.from);
    const plan = scriptedFaults({ operation: 'create', key: /\/manifest-/, fault: FAULTS.stopBefore });
    const victim = new FaultyStore(new MemoryStore(runs.to), plan);
    void open(victim)
      .admin.mirrorFrom(from)
      .catch(() => undefined); // `from` is closed at the end, and that ends it
    await victim.stopped;
    await using to = open(runs.to);
    expect((await to.admin.mirrorFrom(from)).copied[0]?.reusedBytes).toBe(3 * 70_005);
    const receipts = runs.to.keys().filter((key) => key.includes('/receipts/'));
    expect(receipts.map((key) => key.split('/').at(-1))).toEqual([
      '0.0.json',
      '0.1.json',
      '1.0.json',
      '2.0.json',
    ]);
    await checkInvariants(viewOfBucket(runs.to), []);
  });
});

describe('a mirror is a writer of its destination', () => {
  test('I5: it is fenced by a newer attempt, and commits nothing more', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n]);
    await using from = open(runs.from);
    const isReceipt = (operation: string, key: string) =>
      operation === 'create' && /_2\/.*receipts/.test(key);
    await using to = open(interfered(runs.to, isReceipt, () => takeOver(runs.to)));
    expect(await failure(to.admin.mirrorFrom(from))).toContain('Fenced');
    expect((await to.list()).map((each) => each.version)).toEqual([1n]);
    await using next = open(runs.to);
    expect(await next.admin.mirrorFrom(from)).toMatchObject({ copied: [{ version: 2n }], present: [1n] });
    await checkInvariants(viewOfBucket(runs.to), []);
  });

  test('it finds out that it is fenced before it sends a byte', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n]);
    const isLease = (_: string, key: string) => key.startsWith('leases/2.');
    await using from = open(interfered(runs.from, isLease, () => takeOver(runs.to)));
    const { store, sent } = counted(runs.to);
    await using to = open(store);
    expect(await failure(to.admin.mirrorFrom(from))).toContain('Fenced');
    expect(sent.some((key) => key.startsWith('version_2/'))).toBe(false);
    expect((await to.list()).map((each) => each.version)).toEqual([1n]);
  });

  test('it fences who wrote there before, once there is something to copy', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n]);
    await using from = open(runs.from);
    await using writer = open(runs.to);
    await writer.join();
    await using to = open(runs.to);
    await to.admin.mirrorFrom(from);
    expect(await failure(writer.save({ version: 9, buffers: { a: new Uint8Array(1) } }))).toContain('Fenced');
  });
});

describe('while the source changes', () => {
  test('I3: a version that is read is leased, and the lease is gone afterwards', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n]);
    let leases: string[] = [];
    const lookAtLeases = async () => {
      leases = runs.from.keys().filter((key) => key.startsWith('leases/1.'));
    };
    await using from = open(interfered(runs.from, (operation) => operation === 'readInto', lookAtLeases));
    await using to = open(runs.to);
    await to.admin.mirrorFrom(from);
    expect(leases.length).toBe(1);
    expect(runs.from.keys().some((key) => key.startsWith('leases/'))).toBe(false);
  });

  test('a version that is removed before its turn is passed over, and the next ones are copied', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n, 3n]);
    await using from = open(runs.from);
    const isFirst = (operation: string, key: string) => operation === 'create' && /_1\//.test(key);
    await using to = open(interfered(runs.to, isFirst, () => removeVersion(runs.from, 2n)));
    const { copied, skipped } = await to.admin.mirrorFrom(from);
    expect(copied.map((each) => each.version)).toEqual([1n, 3n]);
    expect(skipped).toEqual([{ version: 2n, reason: 'it was retired or removed from the source meanwhile' }]);
  });

  test('a version whose objects go while it is read is passed over, too', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n]);
    const isRead = (operation: string) => operation === 'readInto';
    await using from = open(interfered(runs.from, isRead, () => removeVersion(runs.from, 1n)));
    await using to = open(runs.to);
    const { copied, skipped } = await to.admin.mirrorFrom(from);
    expect([copied.map((each) => each.version), skipped[0]?.version]).toEqual([[2n], 1n]);
    await checkInvariants(viewOfBucket(runs.to), []);
  });

  test('a source that cannot be written is copied without a lease', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n]);
    const plan = scriptedFaults({ operation: 'create', fault: refuse('Denied'), times: 100 });
    await using from = open(new FaultyStore(new MemoryStore(runs.from), plan));
    await using to = open(runs.to);
    expect((await to.admin.mirrorFrom(from)).copied.length).toBe(1);
  });
});

describe('stopping', () => {
  const isRead = (operation: string) => operation === 'readInto';

  test('the signal ends it with Aborted, and nothing of the version is committed', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n]);
    const stop = new AbortController();
    await using from = open(interfered(runs.from, isRead, async () => stop.abort()));
    await using to = open(runs.to);
    expect(await failure(to.admin.mirrorFrom(from, { signal: stop.signal }))).toContain('Aborted');
    expect(await to.list()).toEqual([]);
    expect(runs.to.openUploads()).toEqual([]);
  });

  test.each(['from', 'to'] as const)('closing the manager that it copies %s ends it', async (side) => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n]);
    const managers: Partial<Record<'from' | 'to', ReturnType<typeof open>>> = {};
    const close = async () => void managers[side]?.close();
    managers.from = open(interfered(runs.from, isRead, close));
    managers.to = open(runs.to);
    expect(await failure(managers.to.admin.mirrorFrom(managers.from))).toBe(
      'Aborted: the manager was closed',
    );
    await managers.from.close();
    await managers.to.close();
    await checkInvariants(viewOfBucket(runs.to), []);
  });
});

describe('a rollback of the source during a mirror', () => {
  const rolledBack = async (at: RegExp) => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n, 3n]);
    const rollBack = async () => {
      await using trainer = open(runs.from);
      await trainer.admin.rollback({ to: 1, reason: 'the loss rises' });
    };
    await using from = open(runs.from);
    await using to = open(interfered(runs.to, (_, key) => at.test(key), rollBack));
    const { copied, skipped } = await to.admin.mirrorFrom(from);
    return { runs, copied: copied.map(({ version }) => version), skipped };
  };

  test.each([
    ['before a version is copied', /^version_1\/.*manifest-/],
    ['while a version is copied', /^version_2\/.*\/0\.0-/],
  ])('%s: it is not copied, and later versions can be', async (_, at) => {
    const { runs, copied, skipped } = await rolledBack(at);
    expect(copied).toEqual([1n]);
    expect(skipped).toMatchObject(
      [2n, 3n].map((version) => ({ version, reason: expect.stringMatching(/rollback/) })),
    );
    await saveAll(runs.from, [4n], { attempt: 'job-1' });
    await using from = open(runs.from);
    await using to = open(runs.to);
    await to.admin.mirrorFrom(from);
    expect((await to.latest())?.version).toBe(4n);
  });

  test.each([
    ['', 1024],
    [', also of pages of the catalog', 2],
  ])(
    'after it, the next mirror tells what a restart from the copy may load%s',
    async (_, entryCheckpointsMax) => {
      const runs = twoRuns();
      const settings = { ...SETTINGS, entryCheckpointsMax };
      await saveAll(runs.from, [1n, 2n, 3n]);
      await using from = open(runs.from, { settings, attempt: 'job-2' });
      await using to = open(runs.to);
      await to.admin.mirrorFrom(from);
      await from.admin.rollback({ to: 1, reason: 'the loss rises' });
      // They move into pages.
      for (const version of [4n, 5n, 6n]) await from.save({ version, buffers: { a: bytes(9) } });
      const { copied, skipped } = await to.admin.mirrorFrom(from);
      const reason = expect.stringMatching(/^it was copied before a rollback of the source left it behind/);
      expect([copied.length, skipped]).toEqual([3, [2n, 3n].map((version) => ({ version, reason }))]);
    },
  );
});
