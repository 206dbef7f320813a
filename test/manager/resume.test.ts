/**
 * A save was killed in the middle of a file. The next life of its writer compares the parts in the
 * store, and does not send them again.
 */

import { createHash } from 'node:crypto';
import type { Logger, ObjectStore } from '@holdfast/core';
import { encodeRecord, sha256, toHex, uploadKey } from '@holdfast/core/internal/format/index';
import { FAULTS, type FaultPlan, ManualClock, type PlannedCall, refuse } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket } from './memory-run.ts';
import {
  bytesOf,
  CONCURRENCY,
  changeUploads,
  detailsOf,
  expectAfresh,
  expectSaved,
  KILLED_AT,
  killAtPart,
  killAtSentPart,
  killedLife,
  leftBehind,
  leftUpload,
  life,
  meanwhile,
  NAME,
  OWN,
  PART,
  PART_COUNT,
  recordKeys,
  SIZE,
  source,
  VERSION,
} from './resume-run.ts';

describe('a writer that begins again after it was killed in the middle of a file', () => {
  test('sends at most what was under way and what was missing; the upload, its key and its record go on', async () => {
    const bucket = await leftBehind();
    const { state } = leftUpload(bucket);
    const kept = [...state.parts.values()];
    expect(kept.length).toBeGreaterThanOrEqual(KILLED_AT - CONCURRENCY);
    const next = life(bucket);
    await next.save(source);
    await expectSaved(bucket, source);
    expect(next.count('putPart')).toBe(PART_COUNT - kept.length);
    expect(next.count('putPart')).toBeLessThanOrEqual(PART_COUNT - KILLED_AT + CONCURRENCY);
    expect([next.count('beginUpload'), next.count('create', 'uploads/')]).toEqual([0, 0]);
    expect((await detailsOf(bucket)).key).toBe(state.key);
    expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
    const keptBytes = kept.reduce((sum, part) => sum + part.bytes.byteLength, 0);
    expect(next.events).toContainEqual({ type: 'resumed', version: 7n, name: NAME, keptBytes });
    await next.manager.close();
  });

  test('bytes that are kept count as done, and the file is complete once', async () => {
    const bucket = await leftBehind();
    const next = life(bucket);
    await next.save(source);
    const done = next.events.flatMap((event) => (event.type === 'bytes' ? [event.doneBytes] : []));
    expect(done).toEqual([...done].sort((a, b) => a - b));
    expect(done).toHaveLength(PART_COUNT);
    expect(done.filter((each) => each === SIZE)).toHaveLength(1);
    await next.manager.close();
  });

  test('I1, I6: a source that has changed meanwhile: only the parts that are the same are kept', async () => {
    const bucket = await leftBehind();
    const { parts } = leftUpload(bucket).state;
    const changed = source.slice();
    // Parts end in any order, so the killed life may have kept others instead of these.
    const changedAndKept = [0, 3, 7].filter((part) => parts.has(part)).length;
    expect(changedAndKept).toBeGreaterThan(0);
    const sentCount = PART_COUNT - parts.size + changedAndKept;
    for (const part of [0, 3, 7]) changed[part * PART + 5] = (changed[part * PART + 5] ?? 0) ^ 1;
    const next = life(bucket);
    await next.save(changed);
    await expectSaved(bucket, changed);
    expect(next.count('putPart')).toBe(sentCount);
    await next.manager.close();
  });

  test('a completely different source: nothing is kept and nothing is logged', async () => {
    const bucket = await leftBehind();
    const other = bytesOf(99);
    const next = life(bucket);
    await next.save(other);
    await expectSaved(bucket, other);
    expect(next.count('putPart')).toBe(PART_COUNT);
    expect(next.events.filter(({ type }) => type === 'resumed')).toEqual([]);
    expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
    await next.manager.close();
  });

  test('parts without a CRC32C: an MD5 decides which are kept; one that differs is sent again', async () => {
    const bucket = await leftBehind();
    const { parts } = leftUpload(bucket).state;
    const [other] = parts.keys();
    const change = changeUploads((upload) => {
      const listParts = upload.listParts.bind(upload);
      upload.listParts = async () =>
        (await listParts()).map(({ crc32c: _, ...part }) => {
          const md5 = createHash('md5')
            .update(parts.get(part.index)?.bytes ?? '')
            .digest('hex');
          return { ...part, md5: part.index === other ? '0'.repeat(32) : md5 };
        });
    });
    const keptParts = parts.size;
    const next = life(bucket, { change });
    await next.save(source);
    await expectSaved(bucket, source);
    expect(next.count('putPart')).toBe(PART_COUNT - keptParts + 1);
    await next.manager.close();
  });

  test('parts whose checksum the store does not tell are sent again', async () => {
    const bucket = await leftBehind();
    const change = changeUploads((upload) => {
      const listParts = upload.listParts.bind(upload);
      upload.listParts = async () => (await listParts()).map(({ crc32c: _, ...part }) => part);
    });
    const next = life(bucket, { change });
    await next.save(source);
    await expectSaved(bucket, source);
    expect(next.count('putPart')).toBe(PART_COUNT);
    await next.manager.close();
  });

  test('killed again, and again: each goes on from what the ones before have sent', async () => {
    const bucket = await leftBehind();
    const { key } = leftUpload(bucket).state;
    // The lives before may have sent all parts but the one that ended them.
    await killedLife(bucket, KILLED_AT, source, { plan: killAtSentPart(1) });
    await killedLife(bucket, KILLED_AT, source, { plan: killAtSentPart(1) });
    expect(bucket.openUploads()).toHaveLength(1);
    const keptParts = leftUpload(bucket).state.parts.size;
    const last = life(bucket);
    await last.save(source);
    expect(last.count('putPart')).toBe(PART_COUNT - keptParts);
    expect((await detailsOf(bucket)).key).toBe(key);
    await expectSaved(bucket, source);
    await last.manager.close();
  });

  test('several uploads were left: that of the youngest life is taken; one that is gone is skipped', async () => {
    for (const isGone of [false, true]) {
      const bucket = await leftBehind();
      const older = leftUpload(bucket).state;
      // It could not resume the first upload, and began another.
      const plan: FaultPlan = (call) =>
        call.operation === 'resumeUpload' ? refuse('Unexpected') : killAtPart(KILLED_AT)(call);
      await killedLife(bucket, KILLED_AT, source, { plan });
      const younger = bucket.openUploads().find(({ token }) => token !== older.token);
      if (isGone) bucket.endUpload(younger?.token ?? '');
      const next = life(bucket);
      await next.save(source);
      expect((await detailsOf(bucket)).key).toBe(isGone ? older.key : younger?.key);
      expect(next.count('putPart')).toBeLessThan(PART_COUNT);
      await expectSaved(bucket, source);
      await next.manager.close();
    }
  });

  test('a save that fails aborts the upload and deletes the record, as its own', async () => {
    const bucket = await leftBehind();
    const next = life(bucket, {
      plan: ({ operation }) => (operation === 'putPart' ? FAULTS.loseRequest : undefined),
    });
    expect(await failure(next.save(source))).toMatch(/^Unavailable: part \d+/);
    expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
    await next.manager.close();
  });

  test('stopped by its caller while it looks for uploads or goes on with one: Aborted', async () => {
    const moments: Record<string, (call: PlannedCall) => boolean> = {
      list: ({ operation, key }) => operation === 'list' && key === `uploads/${OWN}`,
      get: ({ operation, key }) => operation === 'get' && key.startsWith('uploads/'),
      resume: ({ operation }) => operation === 'resumeUpload',
      listParts: ({ operation }) => operation === 'listParts',
    };
    for (const [moment, isNow] of Object.entries(moments)) {
      const bucket = await leftBehind();
      const stop = new AbortController();
      const plan: FaultPlan = (call) => {
        if (!isNow(call)) return undefined;
        stop.abort();
        return FAULTS.stall;
      };
      const { manager } = life(bucket, { plan });
      const saving = manager.save({ version: 7, buffers: { [NAME]: source }, signal: stop.signal });
      expect([moment, await failure(saving)]).toEqual([moment, expect.stringMatching(/^Aborted/)]);
      expect(recordKeys(bucket)).toHaveLength(1);
      await manager.close();
    }
  });
});

/** A record as a newer Holdfast might write it. */
function newer(record: Uint8Array): Uint8Array {
  const tail = Buffer.from(new TextDecoder().decode(record.subarray(85)).replace('"major":1', '"major":2'));
  return Buffer.from(`{"checksum":"sha256:${toHex(sha256(tail))}"${tail}`);
}

describe('which uploads are looked for', () => {
  test('none in the first life of a writer, nor for a stream, nor for files that are sent whole', async () => {
    const bucket = newBucket();
    const first = life(bucket);
    await first.save(source);
    expect(first.count('list', `uploads/${OWN}`)).toBe(0);
    await first.manager.close();
    const left = await leftBehind();
    const next = life(left);
    await next.manager.save({
      version: VERSION,
      files: {
        [NAME]: (async function* () {
          yield source;
        })(),
        small: bytes(1000),
      },
    });
    expect([next.count('list', `uploads/${OWN}`), next.count('resumeUpload')]).toEqual([0, 0]);
    await expectSaved(left, source);
    await next.manager.close();
  });

  test('none where the store cannot resume uploads', async () => {
    const bucket = await leftBehind();
    const change = (store: ObjectStore) =>
      Object.assign(store, { capabilities: { ...store.capabilities, resumesUploads: false } });
    const next = life(bucket, { change });
    await next.save(source);
    expect(next.count('list', `uploads/${OWN}`)).toBe(0);
    await expectAfresh(bucket, next);
    await next.manager.close();
  });

  test('one listing serves all files of a save', async () => {
    const bucket = newBucket();
    const buffers = { a: source, b: bytesOf(2), c: bytesOf(3) };
    const first = life(bucket, { clock: new ManualClock(), plan: killAtPart(PART_COUNT - 2) });
    void first.manager.save({ version: VERSION, buffers });
    await first.store.stopped;
    const openCount = bucket.openUploads().length;
    const next = life(bucket);
    await next.manager.save({ version: VERSION, buffers });
    expect([next.count('list', `uploads/${OWN}`), next.count('resumeUpload')]).toEqual([1, openCount]);
    await next.manager.close();
  });

  test('only those of the same checkpoint, writer, name, size and part size, of a former life', async () => {
    const others = [
      { id: { lineage: 1, epoch: 1, version: 8n } },
      { id: { lineage: 1, epoch: 2, version: 7n } },
      { id: { lineage: 2, epoch: 1, version: 7n } },
      { writer: 1 },
      { incarnation: 1 },
      { incarnation: 2 },
      { name: 'other' },
      { sizeBytes: SIZE - 1 },
      { sizeBytes: -1 },
      { partSizeBytes: 2 * PART },
      { key: `version_7/1.1/1.0-ff/${NAME}` },
      { key: `version_8/1.1/0.0-ff/${NAME}` },
      { key: 'version_7/1.1/0.0-ff/other' },
      { key: 'catalog/00000000000000000009.json' },
    ];
    for (const other of others) {
      const bucket = await leftBehind();
      const { record, recordKey } = leftUpload(bucket);
      bucket.remove(recordKey);
      bucket.insert(uploadKey(`${OWN}changed`), encodeRecord('upload', { ...record, ...other }).bytes);
      const next = life(bucket);
      await next.save(source);
      expect([other, next.count('resumeUpload')]).toEqual([other, 0]);
      await expectAfresh(bucket, next);
      await next.manager.close();
    }
  });

  test('records that are damaged, of a newer format, too large or gone by the time are passed over, and the good one is found', async () => {
    const bucket = await leftBehind();
    const { record } = leftUpload(bucket);
    bucket.insert(uploadKey(`${OWN}0-damaged`), bytes(100));
    bucket.insert(uploadKey(`${OWN}0-large`), new Uint8Array(70_000));
    bucket.insert(uploadKey(`${OWN}0-newer`), newer(encodeRecord('upload', record).bytes));
    bucket.insert(uploadKey(`${OWN}0-gone`), encodeRecord('upload', record).bytes);
    const plan = meanwhile(
      ({ operation, key }) => operation === 'get' && key.startsWith('uploads/'),
      () => bucket.remove(uploadKey(`${OWN}0-gone`)),
    );
    const next = life(bucket, { plan });
    await next.save(source);
    expect(next.count('putPart')).toBeLessThan(PART_COUNT);
    await expectSaved(bucket, source);
    await next.manager.close();
  });

  test.each(['Denied', 'Unavailable', 'Unexpected'] as const)(
    'the listing is refused with %s: the save goes on without',
    async (code) => {
      const bucket = await leftBehind();
      const next = life(bucket, {
        plan: ({ operation, key }) =>
          operation === 'list' && key === `uploads/${OWN}` ? refuse(code) : undefined,
      });
      await next.save(source);
      await expectAfresh(bucket, next);
      await next.manager.close();
    },
  );

  test('a store that does not answer for the records is waited for until their deadline, and not longer', async () => {
    const bucket = await leftBehind();
    const clock = new ManualClock({ autoAdvance: true });
    const plan: FaultPlan = ({ operation, key }) =>
      operation === 'get' && key.startsWith('uploads/') ? FAULTS.stall : undefined;
    const next = life(bucket, { plan, clock });
    const beganMs = clock.monotonicMs();
    await next.save(source);
    expect(clock.monotonicMs() - beganMs).toBeLessThan(200_000);
    await expectAfresh(bucket, next);
    await next.manager.close();
  });

  test('very many records: only a limited number is read', async () => {
    const bucket = newBucket();
    const setUp = life(bucket);
    await setUp.save(bytes(10), 1);
    await setUp.manager.close();
    for (let index = 0; index < 1500; index++)
      bucket.insert(uploadKey(`${OWN}${String(index).padStart(5, '0')}`), bytes(10));
    const next = life(bucket);
    await next.save(source);
    // Each is damaged, and is read three times.
    expect(next.count('get', 'uploads/')).toBe(3 * 1024);
    await next.manager.close();
  });
});

test('the token of an upload that is resumed, or cannot be, is in its record and nowhere else', async () => {
  for (const operation of ['resumeUpload', 'listParts', 'putPart', 'complete'] as const) {
    const bucket = await leftBehind();
    const { token } = leftUpload(bucket).state;
    const said: string[] = [];
    const logger: Logger = { log: (...all) => said.push(JSON.stringify(all)) };
    const next = life(bucket, {
      logger,
      plan: (call) => (call.operation === operation ? refuse('Unexpected') : undefined),
    });
    await next.save(source).catch((error: Error) => said.push(error.message, String(error.stack)));
    said.push(JSON.stringify(next.events, (_, value) => (typeof value === 'bigint' ? `${value}` : value)));
    expect(said.join('\n')).not.toContain(token);
    await next.manager.close();
  }
});
