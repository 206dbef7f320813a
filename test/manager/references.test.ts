/** Unchanged files are referred to instead of being sent. This never endangers a checkpoint. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, type RandomSource } from '@holdfast/core';
import type { LocalFiles } from '@holdfast/core/contract';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { localFiles } from '@holdfast/local-files';
import { openCheckpointManager } from '@holdfast/stores';
import { FAULTS, FaultyStore, refuse } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { quarantineVersion } from '../mirror/changed-runs.ts';
import { interfered } from '../mirror/two-runs.ts';
import { bytes, failure, newBucket, open, readAll, SETTINGS } from './memory-run.ts';
import {
  BOTH,
  basesOf,
  collectAllButLatest,
  expectToHold,
  keysOf,
  LARGE,
  PAYLOAD,
  receiptOf,
  runWith,
  SMALL,
  writer,
} from './referring-run.ts';

describe('what is referred to', () => {
  test('no payload byte of unchanged files is sent, and every reader gets them', async () => {
    const bucket = await runWith(BOTH);
    const { manager, sent } = writer(bucket);
    const saved = await manager.save({ version: 2, buffers: BOTH });
    expect(saved).toMatchObject({ sizeBytes: 300_700, referencedBytes: 300_700, fileCount: 2 });
    expect([sent(), keysOf(bucket, PAYLOAD).filter((key) => key.startsWith('version_2/'))]).toEqual([0, []]);
    const [newest] = await manager.list();
    expect(newest).toMatchObject({ version: 2n, sizeBytes: 300_700, storedBytes: 0 });
    const stream = (await manager.latest())?.openInputStream('large') as ReadableStream;
    expect(Buffer.compare(await readAll(stream), LARGE)).toBe(0);
    await manager.close();
    await expectToHold(bucket, 2, BOTH);
  });

  test('under another name too; what has changed is sent, of the same size or not', async () => {
    const bucket = await runWith(BOTH);
    const { manager } = writer(bucket);
    const buffers = { 'sub/renamed': LARGE, small: bytes(700, 3), more: bytes(701, 2) };
    const saved = await manager.save({ version: 2, buffers });
    expect([saved.referencedBytes, saved.sizeBytes]).toEqual([300_000, 301_401]);
    expect((await manager.list())[0]).toMatchObject({ storedBytes: 1401 });
    await manager.close();
    await expectToHold(bucket, 2, buffers);
  });

  test('a file as it was before the last change: the newest four checkpoints are looked at', async () => {
    const bucket = await runWith({ a: LARGE }, { a: bytes(9, 2) }, { a: bytes(9, 3) }, { a: bytes(9, 4) });
    await using manager = open(bucket);
    expect((await manager.save({ version: 5, buffers: { a: LARGE } })).referencedBytes).toBe(300_000);
    expect(basesOf(bucket, 5)).toEqual([1n]);
    // The file of version 2, which is the fifth newest once there is a version 6.
    const another = bytes(9, 2);
    expect((await manager.save({ version: 6, buffers: { a: bytes(9, 6) } })).referencedBytes).toBe(0);
    expect((await manager.save({ version: 7, buffers: { a: another } })).referencedBytes).toBe(0);
  });

  test('what one process saves again and again it reads back once', async () => {
    const bucket = newBucket();
    const { manager, store } = writer(bucket);
    for (let version = 1; version <= 6; version++) {
      await manager.save({ version, buffers: { ...BOTH, step: Uint8Array.of(version) } });
    }
    const read = store.calls.filter(
      ({ operation, key }) => operation === 'get' && key.includes('/manifest-'),
    );
    expect(new Set(read.map(({ key }) => key)).size).toBe(read.length);
    await manager.close();
  });

  test('several writers refer each to their own, or to what another has sent', async () => {
    const bucket = newBucket();
    const both = [0, 1].map((index) => open(bucket, { attempt: 'job', writer: { index, count: 2 } }));
    const save = (version: number, files: readonly Record<string, Uint8Array>[]) =>
      Promise.all(both.map((manager, index) => manager.save({ version, buffers: files[index] ?? {} })));
    for (const version of [1, 2]) await save(version, [{ a: LARGE }, { b: SMALL }]);
    const saved = await save(3, [{ a: SMALL }, { b: LARGE }]);
    expect(saved.map((each) => each.referencedBytes)).toEqual([700, 300_000]);
    for (const manager of both) await manager.close();
    await expectToHold(bucket, 3, { a: SMALL, b: LARGE });
  });

  test('a file of a directory, in a store on the local disk, with the mode it has now', async () => {
    const place = mkdtempSync(join(tmpdir(), 'holdfast-references-'));
    try {
      writeFileSync(join(place, 'model'), LARGE, { mode: 0o644 });
      await using manager = await openCheckpointManager(`file://${place}/run`, { settings: SETTINGS });
      for (const version of [1, 2]) await manager.save({ version, files: { model: join(place, 'model') } });
      rmSync(join(place, 'model'));
      writeFileSync(join(place, 'model'), LARGE, { mode: 0o600 });
      const saved = await manager.save({ version: 3, files: { model: join(place, 'model') } });
      expect(saved.referencedBytes).toBe(300_000);
      const to = { model: new Uint8Array(300_000) };
      await manager.restore({ to });
      expect(Buffer.compare(to.model, LARGE)).toBe(0);
      const [file] = (await (await manager.latest())?.details())?.files ?? [];
      expect(file?.key).toMatch(/^version_2\//);
      expect((await manager.admin.verify()).problems).toEqual([]);
    } finally {
      rmSync(place, { recursive: true });
    }
  });
});

describe('bases', () => {
  test('the base is the checkpoint whose manifest lists the object, not the one whose key it lies under', async () => {
    const bucket = await runWith(BOTH, BOTH);
    expect((await collectAllButLatest(bucket)).removed).toEqual([1n]);
    const { manager, sent } = writer(bucket);
    expect((await manager.save({ version: 3, buffers: BOTH })).referencedBytes).toBe(300_700);
    expect([basesOf(bucket, 3), sent()]).toEqual([[2n], 0]);
    await manager.close();
    await expectToHold(bucket, 3, BOTH);
    await collectAllButLatest(bucket);
    await expectToHold(bucket, 3, BOTH);
  });

  test('the lease comes before the receipt, a look at the catalog between them; after the commit it is gone', async () => {
    const bucket = await runWith(BOTH);
    const { manager, store } = writer(bucket);
    await manager.save({ version: 2, buffers: BOTH });
    const order = store.calls.map(({ operation, key }) => `${operation} ${key.replace(/[^/]*$/, '')}`);
    const lease = order.findIndex((call) => call.startsWith('create leases/1.1.1/'));
    const receipt = order.findIndex(
      (call) => call.startsWith('create version_2/') && call.endsWith('receipts/'),
    );
    expect(lease).toBeGreaterThan(0);
    expect(order.slice(lease, receipt)).toContain('list catalog/');
    expect(keysOf(bucket, /^leases\//)).toEqual([]);
    await manager.close();
  });

  test('I3: while the save waits for others, collection leaves the base alone', async () => {
    const bucket = await runWith({ a: LARGE }, { a: SMALL });
    const [first, second] = [0, 1].map((index) =>
      open(bucket, { attempt: 'job', writer: { index, count: 2 } }),
    );
    const delivered = await first?.save({ version: 3, buffers: { a: LARGE }, noWait: true });
    expect(delivered).toMatchObject({ isCommitted: false, referencedBytes: 300_000 });
    await first?.close();
    expect((await collectAllButLatest(bucket)).postponed).toMatchObject([{ version: 1n }]);
    await second?.save({ version: 3, buffers: { b: SMALL } });
    await second?.close();
    await expectToHold(bucket, 3, { a: LARGE, b: SMALL });
  });

  test('a base that is removed before the lease is there: its files are sent after all', async () => {
    const bucket = await runWith(BOTH, { a: bytes(9) });
    const isLease = (operation: string, key: string) => operation === 'create' && key.startsWith('leases/');
    const store = interfered(bucket, isLease, () => collectAllButLatest(bucket));
    const { manager } = writer(bucket, { store });
    const done: string[] = [];
    const saved = await manager.save({
      version: 3,
      buffers: { ...BOTH, kept: bytes(9) },
      onProgress: (event) => {
        if (event.type === 'bytes' && event.doneBytes === event.totalBytes) done.push(event.name);
      },
    });
    expect([saved.referencedBytes, basesOf(bucket, 3), done.sort()]).toEqual([
      9,
      [2n],
      ['kept', 'large', 'small'],
    ]);
    await manager.close();
    await expectToHold(bucket, 3, { ...BOTH, kept: bytes(9) });
  });

  test('a base that is removed after the receipt: BaseGone, nothing is committed, and the next save sends the bytes', async () => {
    const bucket = await runWith(BOTH, { a: bytes(9) });
    const isManifest = (operation: string, key: string) =>
      operation === 'create' && key.includes('/manifest-');
    const store = interfered(bucket, isManifest, () => quarantineVersion(bucket, 1n, 'by a test'));
    const { manager } = writer(bucket, { store });
    const said = await failure(manager.save({ version: 3, buffers: BOTH }));
    expect(said).toContain('BaseGone: ');
    expect(said).toContain('to which it refers, is removed or quarantined');
    expect((await manager.latest())?.version).toBe(2n);
    expect(await manager.save({ version: 4, buffers: BOTH })).toMatchObject({
      isCommitted: true,
      referencedBytes: 0,
    });
    await manager.close();
    await expectToHold(bucket, 4, BOTH);
  });

  test('a base that was committed after the catalog was read, and before the receipts were: no BaseGone', async () => {
    const bucket = newBucket();
    const position = (index: number) => ({ attempt: 'job', writer: { index, count: 2 } });
    const other = new FaultyStore(new MemoryStore(bucket), ({ operation, key }) =>
      operation === 'create' && key.startsWith('version_3/1.1/manifest-') ? FAULTS.stopBefore : undefined,
    );
    const second = open(bucket, { ...position(1), store: other });
    const commitBase = async () => {
      await second.save({ version: 2, buffers: { b: LARGE } });
      second.save({ version: 3, buffers: { b: LARGE } }).catch(() => undefined); // it is dead
      await other.stopped;
      expect(receiptOf(bucket, 3, 1).bases.map(({ version }) => version)).toEqual([2n]);
    };
    const store = new MemoryStore(bucket);
    const list = store.list.bind(store);
    let isDue = true;
    store.list = async function* (...call) {
      if (isDue && call[0] === 'version_3/1.1/receipts/') {
        isDue = false;
        await commitBase();
      }
      yield* list(...call);
    };
    await using first = open(bucket, { ...position(0), store });
    await first.save({ version: 1, buffers: { a: LARGE }, noWait: true });
    await second.save({ version: 1, buffers: { b: LARGE } });
    await first.save({ version: 2, buffers: { a: LARGE }, noWait: true });
    expect((await first.save({ version: 3, buffers: { a: LARGE }, noWait: true })).isCommitted).toBe(true);
    await expectToHold(bucket, 3, { a: LARGE, b: LARGE });
  });

  test('a store that takes no lease: all is sent', async () => {
    const bucket = await runWith(BOTH);
    const store = new FaultyStore(new MemoryStore(bucket), ({ operation, key }) =>
      operation === 'create' && key.startsWith('leases/') ? refuse('Denied') : undefined,
    );
    await using manager = open(bucket, { store });
    expect((await manager.save({ version: 2, buffers: BOTH })).referencedBytes).toBe(0);
  });

  test('an object of a base that goes missing after the files were compared is found before the commit', async () => {
    const bucket = await runWith(BOTH);
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    store.create = (key, ...rest) => {
      if (key.includes('/receipts/')) bucket.remove(keysOf(bucket, /\/large$/)[0] as string);
      return create(key, ...rest);
    };
    await using manager = open(bucket, { store });
    const said = await failure(manager.save({ version: 2, buffers: BOTH }));
    expect(said).toMatch(
      /^Corrupt: version 2 cannot be committed: large \(version_1\/.*\/large\) was delivered with/,
    );
    expect((await manager.list()).length).toBe(1);
  });

  test('what a checkpoint that was found damaged lists is sent, although an older one lists it too', async () => {
    const bucket = await runWith({ a: LARGE, b: SMALL }, { a: LARGE });
    await quarantineVersion(bucket, 2n, 'a is damaged');
    await using manager = open(bucket);
    const saved = await manager.save({ version: 3, buffers: { a: LARGE, b: SMALL } });
    expect([saved.referencedBytes, basesOf(bucket, 3)]).toEqual([700, [1n]]);
  });

  describe('an object that a quarantined version lists is sent again', () => {
    const settings = { ...SETTINGS, entryCheckpointsMax: 4 };
    const save = async (bucket: MemoryBucket, version: number) => {
      await using manager = open(bucket, { settings, attempt: 'job' });
      return await manager.save({ version, buffers: { a: LARGE, own: bytes(50, version) } });
    };
    const isQuarantined = async (bucket: MemoryBucket, version: bigint) => {
      const { key = '' } = receiptOf(bucket, Number(version)).files.find(({ name }) => name === 'a') ?? {};
      bucket.damage(key, (data) => data.with(5, (data[5] as number) ^ 1));
      await using manager = open(bucket);
      await manager.admin.verify({ version, quarantine: true });
    };

    test('although a rollback left that version behind', async () => {
      const bucket = newBucket();
      for (const version of [1, 2, 3, 4, 5]) await save(bucket, version);
      await isQuarantined(bucket, 5n);
      await using manager = open(bucket, { settings });
      await manager.admin.rollback({ to: 3, reason: 'r' });
      expect((await manager.save({ version: 4, buffers: { a: LARGE } })).referencedBytes).toBe(0);
      expect((await manager.save({ version: 5, buffers: { a: LARGE } })).referencedBytes).toBe(LARGE.length);
      await expectToHold(bucket, 5, { a: LARGE });
    });

    test('although that version lies in a page of the catalog', async () => {
      const bucket = newBucket();
      for (let version = 1; version <= 12; version++) await save(bucket, version);
      await isQuarantined(bucket, 2n);
      await using manager = open(bucket, { settings });
      expect((await manager.save({ version: 13, buffers: { a: LARGE } })).referencedBytes).toBe(0);
      expect((await manager.save({ version: 14, buffers: { a: LARGE } })).referencedBytes).toBe(LARGE.length);
      await expectToHold(bucket, 14, { a: LARGE });
    });

    test('although many others were quarantined since', async () => {
      const bucket = newBucket();
      for (let version = 1; version <= 10; version++) {
        await using manager = open(bucket, { attempt: 'job' });
        const buffers = { ...(version % 2 ? { a: LARGE } : {}), own: bytes(50, version) };
        await manager.save({ version, buffers, onStale: 'off' });
      }
      await isQuarantined(bucket, 3n);
      for (const version of [2n, 4n, 6n, 8n, 10n]) await quarantineVersion(bucket, version, 'r');
      await using manager = open(bucket);
      expect((await manager.save({ version: 11, buffers: { a: LARGE } })).referencedBytes).toBe(0);
    });
  });

  test.each([
    ['missing', (bucket: MemoryBucket, key: string) => bucket.remove(key)],
    ['damaged', (bucket: MemoryBucket, key: string) => bucket.damage(key, (data) => data.subarray(1))],
  ])('a manifest that is %s is no reason to fail: all is sent', async (_, harm) => {
    const bucket = await runWith(BOTH);
    harm(bucket, keysOf(bucket, /\/manifest-/)[0] as string);
    const warned: string[] = [];
    const logger = {
      log: (level: string, message: string) => void (level === 'warn' && warned.push(message)),
    };
    await using manager = open(bucket, { logger });
    expect((await manager.save({ version: 2, buffers: BOTH })).referencedBytes).toBe(0);
    expect(warned[0]).toContain('reading what version 1 holds, to compare with, failed');
  });

  test('a copy in another run has all files as objects of its own', async () => {
    const bucket = await runWith(BOTH, { ...BOTH, more: bytes(5) });
    const copy = newBucket();
    await using from = open(bucket);
    {
      await using to = open(copy);
      await to.admin.mirrorFrom(from, { versions: [2] });
      const [only] = await to.list();
      expect(only).toMatchObject({ sizeBytes: 300_705, storedBytes: 300_705 });
    }
    expect([basesOf(bucket, 2), basesOf(copy, 2)]).toEqual([[1n], []]);
    await expectToHold(copy, 2, { ...BOTH, more: bytes(5) });
  });
});

describe('the save ends', () => {
  test('without having delivered: its leases are gone', async () => {
    const bucket = await runWith(BOTH);
    const store = new FaultyStore(new MemoryStore(bucket), ({ operation, key }) =>
      operation === 'create' && key.includes('/receipts/') ? refuse('Denied') : undefined,
    );
    await using manager = open(bucket, { store });
    expect(await failure(manager.save({ version: 2, buffers: BOTH }))).toContain('Denied');
    expect(store.calls.some(({ key }) => key.startsWith('leases/'))).toBe(true);
    expect(keysOf(bucket, /^leases\//)).toEqual([]);
  });

  test('having delivered, as Incomplete: others may commit it, so its leases are left to expire', async () => {
    const bucket = await runWith(BOTH);
    await using manager = open(bucket, { attempt: 'job', writer: { index: 0, count: 2 } });
    expect(await failure(manager.save({ version: 2, buffers: BOTH, timeoutMs: 0 }))).toContain('Incomplete');
    expect(keysOf(bucket, /^leases\/1\.1\.1\//).length).toBe(1);
  });

  test('a lease that cannot be taken for lack of an answer: no lease of the others stays held', async () => {
    const bucket = await runWith({ a: LARGE }, { b: SMALL });
    const settings = { ...SETTINGS, recordTimeoutMs: 200, retryDelayMsMax: 5 };
    const store = new FaultyStore(new MemoryStore(bucket), ({ operation, key }) =>
      operation === 'create' && key.startsWith('leases/1.') ? refuse('Unavailable') : undefined,
    );
    await using manager = open(bucket, { store, settings });
    const said = await failure(manager.save({ version: 3, buffers: { a: LARGE, b: SMALL } }));
    expect(said).toContain('taking a read lease');
    expect([keysOf(bucket, /^leases\//), keysOf(bucket, /^version_3\//)]).toEqual([[], []]);
  });

  test.each(['missing', 'too short'])(
    'an object that is %s is sent again, and the log says so',
    async (how) => {
      const bucket = await runWith(BOTH, BOTH);
      const [lost = ''] = keysOf(bucket, /^version_1\/.*\/large$/);
      if (how === 'missing') bucket.remove(lost);
      else bucket.damage(lost, (data) => data.subarray(1));
      const lines: string[] = [];
      const logger = { log: (level: string, message: string) => void lines.push(`${level}: ${message}`) };
      const { manager, sent } = writer(bucket, { logger });
      const saved = await manager.save({ version: 3, buffers: BOTH });
      expect([sent() > 0, saved.referencedBytes]).toEqual([true, SMALL.length]);
      expect(lines).toContainEqual(
        expect.stringMatching(/^warn: "large" is sent again: its object of version/),
      );
      await expectToHold(bucket, 3, BOTH);
    },
  );

  test('a file that changed while it was hashed is not referred to, and nothing is committed', async () => {
    const bucket = await runWith({ a: LARGE });
    const files: LocalFiles = { ...localFiles, openSource: async () => changing(LARGE) };
    await using manager = open(bucket, { files });
    const said = await failure(manager.save({ version: 2, files: { a: '/somewhere/a' } }));
    expect(said).toBe('SourceChanged: it was written meanwhile');
    expect(keysOf(bucket, /^(version_2|leases)\//)).toEqual([]);
  });
});

/** A source that another program changes while it is read. */
function changing(data: Uint8Array): RandomSource {
  return {
    sizeBytes: data.length,
    async readInto(offsetBytes, buffer) {
      buffer.set(data.subarray(offsetBytes, offsetBytes + buffer.length));
    },
    async assertUnchanged() {
      throw new CheckpointError('SourceChanged', 'it was written meanwhile');
    },
    async close() {
      // No resource is open.
    },
  };
}
