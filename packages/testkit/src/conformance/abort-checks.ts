import { isCheckpointError, type ObjectStore, type PartReceipt, type Upload } from '@holdfast/core/contract';
import { crc32c } from '../crc32c.ts';
import { type Check, check } from './check.ts';
import { expectBytes, expectEqual, expectRejection, fail, pause, settle } from './expect.ts';
import { putPart } from './upload-checks.ts';

const MIB = 1024 * 1024;
/** The caller writes this into its memory as soon as the memory is its own again. */
const REUSED = 0x5a;
/**
 * Delays from the call to the signal: at once, in the same turn of the event loop, in the next, and
 * later.
 */
const DELAYS_MS: readonly (number | null)[] = [null, 0, 0.1, 1, 2, 4, 8, 16];
/** How long to watch for a store that still uses memory it has given back. */
const WATCH_MS = 40;

export const abortChecks: readonly Check[] = [
  check('signals: a call whose signal has fired is Aborted and has no effect', async (t) => {
    await t.create('a');
    const upload = await t.beginUpload('u');
    const bytes = t.creatableBytes(10);
    const receipt = await putPart(upload, 0, bytes);
    const signal = AbortSignal.abort();
    const { partSizeBytes } = t;
    const calls: Record<string, () => Promise<unknown>> = {
      create: () => t.store.create(t.key('b'), bytes, { signal }),
      head: () => t.store.head(t.key('a'), { signal }),
      get: () => t.store.get(t.key('a'), { maxBytes: 100, signal }),
      readInto: () => t.store.readInto(t.key('a'), 0, bytes.slice(), { signal }),
      beginUpload: () => t.store.beginUpload(t.key('v'), { partSizeBytes, signal }),
      resumeUpload: () => t.store.resumeUpload(upload.token, { signal }),
      list: () => firstPage(t.store, t.prefix, signal),
      deleteMany: () => t.store.deleteMany([t.key('a')], { signal }),
      putPart: () => upload.putPart(0, bytes.slice(1), { crc32c: crc32c(bytes.slice(1)), signal }),
      listParts: () => upload.listParts({ signal }),
      complete: () =>
        upload.complete([receipt], { sizeBytes: bytes.byteLength, crc32c: crc32c(bytes), signal }),
      abort: () => upload.abort({ signal }),
    };
    const { listUploads } = t.store;
    if (listUploads)
      calls['listUploads'] = () =>
        listUploads.call(t.store, t.prefix, { signal })[Symbol.asyncIterator]().next();
    for (const [operation, call] of Object.entries(calls)) {
      const codes = operation === 'resumeUpload' ? (['Aborted', 'Unsupported'] as const) : 'Aborted';
      await expectRejection(call, codes, `${operation} with a signal that has fired`);
    }
    await pause(WATCH_MS);
    expectEqual(await t.listNames(), ['a'], 'objects');
    expectEqual(
      (await upload.listParts()).map((part) => part.sizeBytes),
      [bytes.byteLength],
      'sizes of the parts',
    );
  }),

  check('readInto: after a signal has stopped it, the buffer is not written any more', async (t) => {
    const bytes = t.creatableBytes(2 * MIB);
    await t.create('a', bytes);
    const givenBack: Uint8Array[] = [];
    for (const delayMs of DELAYS_MS) {
      const buffer = new Uint8Array(bytes.byteLength);
      const read = (signal: AbortSignal) => t.store.readInto(t.key('a'), 0, buffer, { signal });
      const wasRead = await stopped(delayMs, 'readInto', read);
      if (wasRead) expectBytes(buffer, bytes, 'a buffer that was read in spite of the signal');
      givenBack.push(buffer.fill(REUSED));
    }
    await pause(WATCH_MS);
    const untouched = new Uint8Array(bytes.byteLength).fill(REUSED);
    for (const buffer of givenBack)
      expectBytes(buffer, untouched, 'a buffer some time after readInto has ended');
  }),

  check('create: after a signal has stopped it, the bytes are not read any more', async (t) => {
    const bytes = t.creatableBytes(2 * MIB);
    for (const [round, delayMs] of DELAYS_MS.entries()) {
      const sent = bytes.slice();
      const create = (signal: AbortSignal) =>
        t.store.create(t.key(`round-${round}`), sent, { crc32c: crc32c(bytes), signal });
      await stopped(delayMs, 'create', create);
      sent.fill(REUSED);
    }
    await pause(WATCH_MS);
    for (const round of DELAYS_MS.keys()) {
      // The call may have taken effect, but then with the bytes that were sent.
      const found = await settle(t.store.get(t.key(`round-${round}`), { maxBytes: bytes.byteLength }));
      if (found.status === 'fulfilled')
        expectBytes(found.value.bytes, bytes, 'an object whose create was stopped');
      else
        await expectRejection(
          Promise.reject(found.reason),
          'NotFound',
          'get after a create that was stopped',
        );
    }
  }),

  check('putPart: after a signal has stopped it, the bytes are not read any more', async (t) => {
    const bytes = t.random.bytes(t.partSizeBytes);
    const sums = { sizeBytes: bytes.byteLength, crc32c: crc32c(bytes) };
    const uploads: { upload: Upload; receipt: PartReceipt }[] = [];
    for (const [round, delayMs] of DELAYS_MS.entries()) {
      const upload = await t.beginUpload(`round-${round}`);
      const sent = bytes.slice();
      await stopped(delayMs, 'putPart', (signal) => upload.putPart(0, sent, { crc32c: sums.crc32c, signal }));
      sent.fill(REUSED);
      uploads.push({ upload, receipt: await putPart(upload, 0, bytes) });
    }
    await pause(WATCH_MS);
    for (const { upload, receipt } of uploads) {
      await upload.complete([receipt], sums);
      const { bytes: found } = await t.store.get(upload.key, { maxBytes: bytes.byteLength });
      expectBytes(found, bytes, 'an object whose first part was stopped and sent again');
    }
  }),

  check(
    'get, head, list, deleteMany: a signal that fires under way ends the call as Aborted, or it has succeeded',
    async (t) => {
      await t.create('a', t.creatableBytes(MIB));
      const calls: Record<string, (signal: AbortSignal) => Promise<unknown>> = {
        get: (signal) => t.store.get(t.key('a'), { maxBytes: MIB, signal }),
        head: (signal) => t.store.head(t.key('a'), { signal }),
        list: (signal) => firstPage(t.store, t.prefix, signal),
        deleteMany: (signal) => t.store.deleteMany([t.key('missing')], { signal }),
      };
      for (const [operation, call] of Object.entries(calls)) {
        for (const delayMs of DELAYS_MS) await stopped(delayMs, operation, call);
      }
    },
  ),

  check('list: a signal that fires between pages ends the listing as Aborted', async (t) => {
    await t.createAll(['a', 'b']);
    const controller = new AbortController();
    const pages = t.store.list(t.prefix, { signal: controller.signal })[Symbol.asyncIterator]();
    await pages.next();
    controller.abort();
    const next = await settle(pages.next());
    // A listing without a second page may end instead.
    const isEnd = next.status === 'fulfilled' && next.value.done === true;
    if (!isEnd) await expectRejection(unsettled(next), 'Aborted', 'the next page after the signal has fired');
  }),

  check('close: safe to repeat, ends what is under way, and leaves other clients alone', async (t) => {
    const bytes = t.creatableBytes(2 * MIB);
    await t.create('a', bytes);
    const other = await t.open();
    const buffer = new Uint8Array(bytes.byteLength);
    const reading = settle(other.readInto(t.key('a'), 0, buffer));
    await other.close();
    await other.close();
    const outcome = await reading;
    if (outcome.status === 'fulfilled')
      expectBytes(buffer, bytes, 'what was read while the store was closed');
    else if (!isCheckpointError(outcome.reason))
      fail('a read that close stopped', 'a CheckpointError', String(outcome.reason));
    for (const call of [
      () => other.head(t.key('a')),
      () => other.create(t.key('b'), new Uint8Array()),
      () => firstPage(other, t.prefix),
    ]) {
      const after = await settle(call);
      if (after.status === 'fulfilled') fail('a call after close', 'a rejection', 'success');
      if (!isCheckpointError(after.reason))
        fail('a call after close', 'a CheckpointError', String(after.reason));
    }
    expectEqual(await t.listNames(), ['a'], 'objects that the first client sees');
  }),
];

/**
 * Fires the signal of a pending call. Resolves to true if the call succeeded nevertheless.
 * Otherwise the call must throw Aborted.
 */
async function stopped(
  delayMs: number | null,
  operation: string,
  call: (signal: AbortSignal) => Promise<unknown>,
): Promise<boolean> {
  const controller = new AbortController();
  const ended = settle(call(controller.signal));
  if (delayMs === 0) await Promise.resolve();
  else if (delayMs !== null)
    await (delayMs < 1 ? new Promise((resolve) => setImmediate(resolve)) : pause(delayMs));
  controller.abort();
  const outcome = await ended;
  if (outcome.status === 'fulfilled') return true;
  await expectRejection(unsettled(outcome), 'Aborted', `${operation} that a signal stopped under way`);
  return false;
}

function unsettled<T>(outcome: PromiseSettledResult<T>): Promise<T> {
  return outcome.status === 'rejected' ? Promise.reject(outcome.reason) : Promise.resolve(outcome.value);
}

async function firstPage(store: ObjectStore, prefix: string, signal?: AbortSignal): Promise<unknown> {
  for await (const page of store.list(prefix, { signal })) return page;
  return undefined;
}
