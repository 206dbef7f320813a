import { isCheckpointError, type ObjectStore, type Upload } from '@holdfast/core/contract';
import { KeyAssertionError, MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { FAULTS, type Fault, type FaultPlan, refuse } from './fault.ts';
import { faultAt, scriptedFaults } from './fault-plan.ts';
import { FaultyStore, ProcessStopped } from './faulty-store.ts';
import { LateEffects } from './late-effects.ts';

const bytes = (...values: number[]) => Uint8Array.from(values);
const code = (expected: string) => expect.objectContaining({ code: expected });

function faulty(plan?: FaultPlan, options?: ConstructorParameters<typeof FaultyStore>[2]) {
  const bucket = new MemoryBucket();
  const inner = new MemoryStore(bucket);
  return { bucket, inner, store: new FaultyStore(inner, plan, options) };
}

/** Whether the promise has settled once everything that could run has run. */
async function isPending(promise: Promise<unknown>): Promise<boolean> {
  let isSettled = false;
  const settle = () => {
    isSettled = true;
  };
  promise.then(settle, settle);
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
  return !isSettled;
}

test('without a plan every call passes, and the log has each with its number', async () => {
  const { store, bucket } = faulty();
  await store.create('a', bytes(1));
  await store.head('a');
  expect((await store.get('a', { maxBytes: 1 })).bytes).toEqual(bytes(1));
  expect(await store.readInto('a', 0, bytes(0))).toBe(1);
  const upload = await store.beginUpload('b', { partSizeBytes: 4 });
  const part = await upload.putPart(0, bytes(1, 2), { crc32c: 0 });
  await (await store.resumeUpload(upload.token)).listParts();
  await upload.complete([part], { sizeBytes: 2, crc32c: 0 });
  await upload.abort();
  for await (const page of store.list('')) expect(page.objects).toHaveLength(2);
  await store.deleteMany(['a', 'b']);
  expect(bucket.keys()).toEqual([]);
  const operations = [
    'create',
    'head',
    'get',
    'readInto',
    'beginUpload',
    'putPart',
    'resumeUpload',
    'listParts',
    'complete',
    'abort',
    'list',
    'deleteMany',
  ];
  expect(store.calls.map((call) => call.operation)).toEqual(operations);
  expect(store.calls.map((call) => call.number)).toEqual(operations.map((_, index) => index));
  expect(store.calls[5]).toEqual({
    number: 5,
    operation: 'putPart',
    key: 'b',
    partIndex: 0,
    fault: undefined,
  });
});

describe('each fault on a create', () => {
  const cases: [keyof typeof FAULTS, { outcome: string; now: string[]; later: string[] }][] = [
    ['stopBefore', { outcome: 'pending', now: [], later: [] }],
    ['stopAfter', { outcome: 'pending', now: ['a'], later: ['a'] }],
    ['stopInFlight', { outcome: 'pending', now: [], later: ['a'] }],
    ['loseRequest', { outcome: 'Unavailable', now: [], later: [] }],
    ['loseReply', { outcome: 'Unavailable', now: ['a'], later: ['a'] }],
    ['delay', { outcome: 'Unavailable', now: [], later: ['a'] }],
    ['duplicate', { outcome: 'ok', now: ['a'], later: ['a'] }],
    ['duplicateSecondReply', { outcome: 'AlreadyExists', now: ['a'], later: ['a'] }],
    ['duplicateLate', { outcome: 'ok', now: ['a'], later: ['a'] }],
    ['stall', { outcome: 'pending', now: [], later: [] }],
    ['stallAfter', { outcome: 'pending', now: ['a'], later: ['a'] }],
  ];
  test.each(cases)('%s', async (name, expected) => {
    const { store, bucket } = faulty(faultAt(0, FAULTS[name]));
    const call = store.create('a', bytes(1));
    const outcome = (await isPending(call))
      ? 'pending'
      : await call.then(
          () => 'ok',
          (error) => error.code,
        );
    expect({ outcome, now: bucket.keys() }).toEqual({ outcome: expected.outcome, now: expected.now });
    await store.lateEffects.releaseAll();
    expect(bucket.keys()).toEqual(expected.later);
    expect(store.isStopped).toBe(name.startsWith('stop'));
    expect(store.calls[0]?.fault).toEqual(FAULTS[name]);
  });
  test('all faults are covered', () => {
    expect(cases.map(([name]) => name).sort()).toEqual(Object.keys(FAULTS).sort());
  });
});

test('refuse: the request fails with that code and has no effect', async () => {
  const { store, bucket } = faulty(faultAt(0, refuse('StorageFull')));
  await expect(store.create('a', bytes(1))).rejects.toEqual(code('StorageFull'));
  expect(bucket.keys()).toEqual([]);
  await store.create('a', bytes(1));
});

describe('every operation can be hit', () => {
  const calls: [string, (store: ObjectStore, upload: Upload) => Promise<unknown>][] = [
    ['create', (store) => store.create('new', bytes(1))],
    ['head', (store) => store.head('a')],
    ['get', (store) => store.get('a', { maxBytes: 9 })],
    ['readInto', (store) => store.readInto('a', 0, bytes(0))],
    ['beginUpload', (store) => store.beginUpload('v', { partSizeBytes: 1 })],
    ['resumeUpload', (store, upload) => store.resumeUpload(upload.token)],
    [
      'list',
      async (store) => {
        for await (const page of store.list('')) expect(page.objects).toHaveLength(1);
      },
    ],
    [
      'listUploads',
      async (store) => {
        for await (const upload of store.listUploads?.('') ?? []) expect(upload).toMatchObject({ key: 'u' });
      },
    ],
    ['deleteMany', (store) => store.deleteMany(['a'])],
    ['putPart', (_, upload) => upload.putPart(1, bytes(2), { crc32c: 0 })],
    ['listParts', (_, upload) => upload.listParts()],
    [
      'complete',
      async (_, upload) =>
        upload.complete([{ index: 0, sizeBytes: 1, etag: '"3"' }], { sizeBytes: 1, crc32c: 0 }),
    ],
    ['abort', (_, upload) => upload.abort()],
  ];
  /** The parts of the bucket's state that a call may change. */
  const stateOf = (bucket: MemoryBucket) => [
    bucket.keys(),
    bucket.openUploads().map((upload) => [upload.key, [...upload.parts.keys()]]),
  ];

  async function prepare(fault: Fault, operation: string) {
    const plan: FaultPlan = (call) =>
      call.operation === operation && call.key !== 'prepare' && isArmed ? fault : undefined;
    let isArmed = false;
    const { store, bucket } = faulty(plan);
    await store.create('a', bytes(1));
    const upload = await store.beginUpload('u', { partSizeBytes: 1 });
    await upload.putPart(0, bytes(1), { crc32c: 0 });
    isArmed = true;
    return { store, bucket, upload, before: stateOf(bucket) };
  }

  test.each(calls)('%s: a lost request has no effect and ends as Unavailable', async (operation, call) => {
    const { store, bucket, upload, before } = await prepare(FAULTS.loseRequest, operation);
    await expect(call(store, upload)).rejects.toEqual(code('Unavailable'));
    expect(stateOf(bucket)).toEqual(before);
  });

  test.each(calls)(
    '%s: a lost reply ends as Unavailable, and the effect is that of the call',
    async (operation, call) => {
      const { store, bucket, upload } = await prepare(FAULTS.loseReply, operation);
      const sound = await prepare(FAULTS.loseReply, 'none');
      await call(sound.store, sound.upload);
      await expect(call(store, upload)).rejects.toEqual(code('Unavailable'));
      expect(stateOf(bucket)).toEqual(stateOf(sound.bucket));
    },
  );

  test.each(calls)(
    '%s: a delayed call has its effect when it is released, and a read has none',
    async (operation, call) => {
      const { store, bucket, upload, before } = await prepare(FAULTS.delay, operation);
      const sound = await prepare(FAULTS.delay, 'none');
      await call(sound.store, sound.upload);
      await expect(call(store, upload)).rejects.toEqual(code('Unavailable'));
      expect(stateOf(bucket)).toEqual(before);
      await store.lateEffects.releaseAll();
      expect(stateOf(bucket)).toEqual(stateOf(sound.bucket));
    },
  );

  test.each(calls)('%s: a stalled call ends with the signal of its caller', async (operation, call) => {
    const { store, upload } = await prepare(FAULTS.stall, operation);
    expect(await isPending(call(store, upload))).toBe(true);
  });

  test.each(calls)('%s: sent twice, it ends as the first one does', async (operation, call) => {
    const { store, bucket, upload } = await prepare(FAULTS.duplicate, operation);
    await call(store, upload);
    expect(store.calls.filter((made) => made.operation === operation).at(-1)?.fault).toEqual(
      FAULTS.duplicate,
    );
    const uploads = bucket.openUploads().filter((open) => open.key === 'v');
    expect(uploads).toHaveLength(operation === 'beginUpload' ? 2 : 0);
  });
});

test('a stopped process makes no more calls, and calls under way get no answer', async () => {
  let release = (): void => undefined;
  const slow = Object.assign(new MemoryStore(), {
    head: () =>
      new Promise((resolve) => {
        release = () => resolve({ key: 'a', sizeBytes: 0, etag: '', createdAtMs: 0 });
      }),
  });
  const store = new FaultyStore(slow, faultAt(1, FAULTS.stopAfter));
  const underWay = store.head('a');
  const last = store.create('b', bytes(1));
  await store.stopped;
  const after = store.create('c', bytes(1));
  release();
  for (const call of [underWay, last, after]) expect(await isPending(call)).toBe(true);
  expect(slow.bucket.keys()).toEqual(['b']);
  expect(store.calls).toHaveLength(2);
});

test("whenStopped 'reject': calls of a stopped process end with ProcessStopped, stalled ones too", async () => {
  const plan = scriptedFaults(
    { operation: 'head', fault: FAULTS.stall },
    { operation: 'create', fault: FAULTS.stopBefore },
  );
  const { store } = faulty(plan, { whenStopped: 'reject' });
  const stalled = store.head('a');
  const ends = [stalled, store.create('b', bytes(1))];
  await store.stopped;
  ends.push(store.get('c', { maxBytes: 1 }).then());
  for (const end of ends) {
    await expect(end).rejects.toThrow(ProcessStopped);
    await expect(end).rejects.toSatisfy((error) => !isCheckpointError(error));
  }
});

test('stop: kills the process between two calls', async () => {
  const { store, bucket } = faulty();
  await store.create('a', bytes(1));
  store.stop();
  await store.stopped;
  expect(await isPending(store.create('b', bytes(1)))).toBe(true);
  expect(bucket.keys()).toEqual(['a']);
});

test('a stalled call ends with its signal, as Aborted or with the error that is its reason', async () => {
  const { store } = faulty(() => FAULTS.stall);
  const controller = new AbortController();
  const call = store.head('a', { signal: controller.signal });
  expect(await isPending(call)).toBe(true);
  controller.abort();
  await expect(call).rejects.toEqual(code('Aborted'));
  await expect(store.head('a', { signal: controller.signal })).rejects.toEqual(code('Aborted'));
  expect(store.calls).toHaveLength(1);
});

test('a late effect has the bytes of the call, whatever the caller did with its buffer since', async () => {
  const { store, inner } = faulty((call) =>
    call.operation === 'create' || call.operation === 'putPart' ? FAULTS.delay : undefined,
  );
  const sent = bytes(1, 2);
  await expect(store.create('a', sent)).rejects.toEqual(code('Unavailable'));
  const upload = await store.beginUpload('b', { partSizeBytes: 2 });
  await expect(upload.putPart(0, sent, { crc32c: 0 })).rejects.toEqual(code('Unavailable'));
  sent.fill(9);
  await store.lateEffects.releaseAll();
  expect((await inner.get('a', { maxBytes: 2 })).bytes).toEqual(bytes(1, 2));
  await upload.complete(await upload.listParts(), { sizeBytes: 2, crc32c: 0 });
  expect((await inner.get('b', { maxBytes: 2 })).bytes).toEqual(bytes(1, 2));
});

test('a late effect lands before the n-th later call, of whatever process shares the network', async () => {
  const bucket = new MemoryBucket();
  const lateEffects = new LateEffects();
  const plan = faultAt(0, { ...FAULTS.delay, lateAfterCalls: 2 });
  const a = new FaultyStore(new MemoryStore(bucket), plan, { lateEffects });
  const b = new FaultyStore(new MemoryStore(bucket), undefined, { lateEffects });
  await expect(a.create('k', bytes(1))).rejects.toEqual(code('Unavailable'));
  await expect(b.head('k')).rejects.toEqual(code('NotFound'));
  await b.head('k');
  expect(lateEffects.count).toBe(0);
});

test('a late effect lands although its process is dead and its caller has stopped it', async () => {
  const { store, bucket } = faulty(faultAt(0, FAULTS.stopInFlight));
  const controller = new AbortController();
  const call = store.create('a', bytes(1), { signal: controller.signal });
  await store.stopped;
  controller.abort();
  await store.lateEffects.releaseOne();
  expect(bucket.keys()).toEqual(['a']);
  expect(await isPending(call)).toBe(true);
});

test('a refused late effect is not an error; a broken promise of the engine fails the test', async () => {
  const { store } = faulty(() => FAULTS.duplicateLate);
  await store.create('a', bytes(1));
  await store.lateEffects.releaseOne(); // AlreadyExists.
  await store.create('b', bytes(1));
  await store.deleteMany(['b']);
  await expect(store.lateEffects.releaseOne()).rejects.toThrow(KeyAssertionError);
  await store.lateEffects.releaseAll();
  await expect(store.lateEffects.releaseOne()).rejects.toThrow('there is no late effect 0; 0 are waiting');
});

test('a listing is hit page by page, and its end is no call', async () => {
  const bucket = new MemoryBucket();
  const inner = new MemoryStore(bucket, { capabilities: { maxListKeys: 1 } });
  for (const key of ['a', 'b', 'c']) await inner.create(key, bytes(1));
  const store = new FaultyStore(
    inner,
    scriptedFaults({ operation: 'list', skip: 4, fault: FAULTS.loseReply }),
  );
  const keysOf = async () => {
    const keys: string[] = [];
    try {
      for await (const page of store.list('')) keys.push(...page.objects.map((object) => object.key));
    } catch (error) {
      keys.push(isCheckpointError(error) ? error.code : 'another error');
    }
    return keys;
  };
  expect(await keysOf()).toEqual(['a', 'b', 'c']);
  expect(await keysOf()).toEqual(['a', 'Unavailable']);
  expect(store.calls).toHaveLength(5);
  store.stop();
  expect(await isPending(keysOf())).toBe(true);
});

test('close closes the store below', async () => {
  const { store, inner } = faulty();
  await store.close();
  await expect(inner.head('a')).rejects.toThrow('is closed');
});
