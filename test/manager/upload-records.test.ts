/**
 * Records of uploads in parts: they exist before the first part and are deleted with the upload.
 */

import { type CheckpointManagerOptions, isCheckpointError, type Logger } from '@holdfast/core';
import { decodeRecord } from '@holdfast/core/internal/format/index';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import {
  FAULTS,
  type FaultName,
  type FaultPlan,
  FaultyStore,
  LateEffects,
  ManualClock,
  refuse,
  SeededRandom,
} from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

const LARGE = bytes(200_000); // four parts
const SAVE = { version: 7, buffers: { 'model/large.bin': LARGE } };

interface Options extends Partial<CheckpointManagerOptions> {
  plan?: FaultPlan;
  bucket?: MemoryBucket;
  resumesUploads?: boolean;
}

function setUp({ plan, bucket = newBucket(), resumesUploads = true, ...options }: Options = {}) {
  const clock = new ManualClock({ autoAdvance: true });
  const lateEffects = new LateEffects();
  // So many parts that parts of streams are small too.
  const capabilities = { resumesUploads, maxParts: 2 ** 24 };
  const store = new FaultyStore(new MemoryStore(bucket, { capabilities }), plan, {
    lateEffects,
  });
  const manager = open(bucket, { store, clock, random: new SeededRandom(1), ...options });
  /** Calls about uploads and their records, in order. */
  const calls = () =>
    store.calls
      .filter(({ key, operation }) => isRecord(key) || /Upload|Part|complete|abort/.test(operation))
      .map(({ operation, key }) => (isRecord(key) ? `${operation} record` : operation));
  return { bucket, calls, lateEffects, manager, store };
}

function isRecord(key: string): boolean {
  return key.startsWith('uploads/');
}

function recordKeys(bucket: MemoryBucket): string[] {
  return bucket.keys().filter(isRecord);
}

function recordsIn(bucket: MemoryBucket) {
  return recordKeys(bucket).map((key) =>
    decodeRecord('upload', bucket.find(key)?.bytes ?? bytes(0), { key }),
  );
}

async function* chunks(data: Uint8Array) {
  for (let at = 0; at < data.length; at += 30_000) yield data.subarray(at, at + 30_000);
}

describe('an upload in parts', () => {
  test('has a record before its first part and none when the save is over', async () => {
    const { bucket, calls, manager } = setUp();
    await manager.save(SAVE);
    expect(calls()).toEqual([
      'beginUpload',
      'create record',
      ...Array(4).fill('putPart'),
      'complete',
      'deleteMany record',
    ]);
    expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
    await manager.close();
  });

  test('its record says what is needed to resume or stop it, and what it is for', async () => {
    const seen: unknown[] = [];
    const bucket = newBucket();
    const note: FaultPlan = ({ operation }) => {
      if (operation === 'complete') seen.push(...recordsIn(bucket));
      return undefined;
    };
    const { manager } = setUp({
      bucket,
      plan: note,
      attempt: 'job',
      writer: { index: 1, count: 2 },
    });
    await manager.save({ ...SAVE, noWait: true });
    const expected = {
      id: { lineage: 1, epoch: 1, version: 7n },
      writer: 1,
      incarnation: 0,
      key: expect.stringMatching(/^version_7\/1\.1\/1\.0-[0-9a-f]+\/model\/large\.bin$/),
      token: expect.stringMatching(/^unnamed-upload-\d+$/),
      partSizeBytes: 65_536,
      sizeBytes: 200_000,
      name: 'model/large.bin',
    };
    expect(seen).toEqual([expect.objectContaining(expected)]);
    seen.length = 0;
    await manager.save({ version: 8, files: { stream: chunks(LARGE) }, noWait: true });
    expect(seen).toEqual([expect.objectContaining({ name: 'stream', sizeBytes: -1 })]);
    await manager.close();
  });

  test('has none where the store cannot resume uploads; a file that is sent whole never has', async () => {
    const cannot = setUp({ resumesUploads: false });
    await cannot.manager.save(SAVE);
    expect(cannot.calls()).toEqual(['beginUpload', ...Array(4).fill('putPart'), 'complete']);
    const whole = setUp();
    await whole.manager.save({ version: 7, buffers: { small: bytes(1000) } });
    expect(whole.calls()).toEqual([]);
    await Promise.all([cannot.manager.close(), whole.manager.close()]);
  });

  test('create(): no record is left once it is committed, nor once the manager of a discarded one is closed', async () => {
    for (const end of ['commit', 'discard'] as const) {
      const { bucket, calls, manager } = setUp();
      const checkpoint = await manager.create(7);
      const writer = checkpoint.openOutputStream('a').getWriter();
      await writer.write(LARGE);
      if (end === 'commit') await writer.close();
      else writer.closed.catch(() => undefined); // it is discarded below
      await checkpoint[end]();
      if (end === 'commit') expect(recordKeys(bucket)).toEqual([]);
      await manager.close();
      expect(calls().filter((call) => call.endsWith('record'))).toEqual([
        'create record',
        'deleteMany record',
      ]);
      expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
    }
  });
});

describe('a record that cannot be written', () => {
  test('no part is sent, the upload is aborted, and the save fails with what the store said', async () => {
    const { bucket, calls, manager } = setUp({
      plan: ({ key }) => (isRecord(key) ? refuse('Denied') : undefined),
    });
    expect(await failure(manager.save(SAVE))).toContain('Denied');
    expect(calls().filter((call) => !call.endsWith('record'))).toEqual(['beginUpload', 'abort']);
    expect(bucket.openUploads()).toEqual([]);
    await manager.close();
  });

  const names = (Object.keys(FAULTS) as FaultName[]).filter((name) => FAULTS[name].reply !== 'stop');
  test.each(names)('%s, once: it is there before the first part, and the save succeeds', async (name) => {
    let hits = 0;
    let partsSeen = 0;
    const bucket = newBucket();
    const rig = setUp({
      bucket,
      plan: ({ operation, key }) => {
        if (operation === 'putPart' && partsSeen++ === 0) expect(recordKeys(bucket)).toHaveLength(1);
        return operation === 'create' && isRecord(key) && hits++ === 0 ? FAULTS[name] : undefined;
      },
    });
    await rig.manager.save(SAVE);
    expect([hits > 0, partsSeen, recordKeys(bucket)]).toEqual([true, 4, []]);
    await rig.manager.close();
  });

  test('for a while: the attempt fails when the deadline of records passes, and leaves no part', async () => {
    const { bucket, calls, manager } = setUp({
      plan: ({ key }) => (isRecord(key) ? FAULTS.loseRequest : undefined),
    });
    const message = await failure(manager.save(SAVE));
    expect(message).toMatch(/^(TimedOut|Unavailable): /);
    expect(calls()).not.toContain('putPart');
    expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
    await manager.close();
  });

  test('its id is taken: the file is sent again with another, and the record that is there stays', async () => {
    const bucket = newBucket();
    const random = new SeededRandom(1);
    const drawn: string[] = [];
    const hex = random.hex.bind(random);
    random.hex = (digits) => {
      const id = hex(digits);
      if (digits === 32) drawn.push(id);
      // Another process drew the same id. However unlikely, its record must not be taken for ours.
      if (digits === 32 && bucket.openUploads().length === 1 && recordKeys(bucket).length === 0)
        bucket.insert(`uploads/7.1.1.0-${id}.json`, bytes(10));
      return id;
    };
    const { calls, manager } = setUp({ bucket, random });
    await manager.save(SAVE);
    expect(calls().filter((call) => call === 'beginUpload' || call === 'abort')).toEqual([
      'beginUpload',
      'abort',
      'beginUpload',
    ]);
    expect(recordKeys(bucket)).toHaveLength(1);
    expect(bucket.find(recordKeys(bucket)[0] as string)?.bytes).toEqual(bytes(10));
    await manager.close();
  });
});

describe('the end of an upload', () => {
  test('a part that is refused: the upload is aborted and its record deleted before the save fails', async () => {
    const { bucket, calls, manager } = setUp({
      plan: ({ operation, partIndex }) =>
        operation === 'putPart' && partIndex === 2 ? refuse('StorageFull') : undefined,
    });
    expect(await failure(manager.save(SAVE))).toContain('StorageFull');
    expect(calls().slice(-2)).toEqual(['abort', 'deleteMany record']);
    expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
    await manager.close();
  });

  test('an upload that cannot be aborted keeps its record, with which another process stops it', async () => {
    const { bucket, manager } = setUp({
      plan: ({ operation }) => {
        if (operation === 'abort') return FAULTS.loseRequest;
        return operation === 'putPart' ? refuse('Denied') : undefined;
      },
    });
    expect(await failure(manager.save(SAVE))).toContain('Denied');
    await manager.close();
    const [record] = recordsIn(bucket);
    const upload = await new MemoryStore(bucket).resumeUpload(record?.token ?? '');
    expect(upload.key).toBe(record?.key);
    await upload.abort();
    expect(bucket.openUploads()).toEqual([]);
  });

  test('an object that is sent again has a record of its own, and none is left', async () => {
    let refused = 0;
    const { bucket, calls, manager } = setUp({
      plan: ({ operation }) => (operation === 'complete' && refused++ === 0 ? refuse('Corrupt') : undefined),
    });
    await manager.save(SAVE);
    expect(calls().filter((call) => call === 'create record')).toHaveLength(2);
    expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
    await manager.close();
  });

  test('records that are due while one is being deleted go in one request, and the save waits for it', async () => {
    const { bucket, manager, store } = setUp();
    const deleteMany = store.deleteMany.bind(store);
    const deleted: number[] = [];
    store.deleteMany = async (keys, options) => {
      if (keys.some(isRecord)) deleted.push(keys.length);
      while (recordsBegun() < 6 || bucket.openUploads().length > 0) await Promise.resolve();
      return deleteMany(keys, options);
    };
    const recordsBegun = () => store.calls.filter((call) => isRecord(call.key)).length;
    const buffers = Object.fromEntries([0, 1, 2, 3, 4, 5].map((index) => [`f${index}`, LARGE]));
    await manager.save({ version: 1, buffers });
    expect(deleted).toEqual([1, 5]);
    expect(recordKeys(bucket)).toEqual([]);
    await manager.close();
  });

  test('a record that cannot be deleted stays, and the save succeeds', async () => {
    const logged: string[] = [];
    const logger: Logger = { log: (_, message) => logged.push(message) };
    const { bucket, manager } = setUp({
      logger,
      plan: ({ operation, key }) =>
        operation === 'deleteMany' && isRecord(key) ? FAULTS.loseRequest : undefined,
    });
    expect((await manager.save(SAVE)).isCommitted).toBe(true);
    expect(recordKeys(bucket)).toHaveLength(1);
    expect(logged).toContain('deleting upload records failed, which is harmless');
    await manager.close();
  });
});

test('the token of an upload is in its record and nowhere else: no message, no log', async () => {
  const token = 'bearer-secret';
  for (const operation of ['create', 'putPart', 'complete', 'abort', 'deleteMany'] as const) {
    const said: string[] = [];
    const logger: Logger = { log: (...all) => said.push(JSON.stringify(all)) };
    const { manager, store, bucket } = setUp({
      logger,
      plan: (call) =>
        call.operation === operation && !call.key.startsWith('catalog/') && call.key !== 'run.json'
          ? FAULTS.loseRequest
          : undefined,
    });
    const begin = store.beginUpload.bind(store);
    store.beginUpload = async (key, options) => Object.assign(await begin(key, options), { token });
    const onProgress = (event: object) =>
      said.push(JSON.stringify(event, (_, value) => (typeof value === 'bigint' ? `${value}` : value)));
    await manager.save({ ...SAVE, onProgress }).catch((error: unknown) => {
      if (!isCheckpointError(error)) throw error;
      for (let cause: unknown = error; isCheckpointError(cause); cause = cause.cause)
        said.push(
          `${cause.message} ${cause.stack} ${JSON.stringify(Object.values(cause.context).map(String))}`,
        );
    });
    expect(said.length).toBeGreaterThan(0);
    expect(said.join('\n')).not.toContain(token);
    if (operation === 'deleteMany') expect(recordsIn(bucket)[0]?.token).toBe(token);
    await manager.close();
  }
});
