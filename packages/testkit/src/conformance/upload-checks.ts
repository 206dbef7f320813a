import type { ObjectInfo, ObjectStore, PartReceipt, Upload } from '@holdfast/core/contract';
import { crc32c } from '../crc32c.ts';
import { tryToAbort, tryToUpload } from '../trials/upload-trials.ts';
import { type Check, check } from './check.ts';
import { expectBytes, expectEqual, expectRejection, expectTrue } from './expect.ts';
import { watchForParts } from './observe-object.ts';
import type { Scratch } from './scratch.ts';

/** Limit of the bytes that one check sends: with parts of 5 MiB, 12 of them. */
const SENT_BYTES_MAX = 64 * 1024 * 1024;

export const uploadChecks: readonly Check[] = [
  check('upload: many parts, sent in any order and at the same time, make one object', async (t) => {
    const { maxParts, preferredConcurrency } = t.capabilities;
    const count = Math.max(1, Math.min(maxParts, 40, Math.floor(SENT_BYTES_MAX / t.partSizeBytes)));
    const bytes = t.random.bytes((count - 1) * t.partSizeBytes + Math.ceil(t.partSizeBytes / 3));
    const upload = await t.beginUpload('a', { sizeBytes: bytes.byteLength });
    expectEqual(
      [upload.key, upload.partSizeBytes],
      [t.key('a'), t.partSizeBytes],
      'key and part size of the upload',
    );
    const receipts: PartReceipt[] = [];
    const waiting = t.random.shuffle(Array.from({ length: count }, (_, index) => index));
    const send = async () => {
      for (let index = waiting.pop(); index !== undefined; index = waiting.pop()) {
        receipts[index] = await putPart(upload, index, bytes);
      }
    };
    await Promise.all(Array.from({ length: Math.min(preferredConcurrency, 8) }, send));
    const info = await complete(upload, receipts, bytes);
    await expectObject(t, 'a', bytes, info);
  }),

  check('upload: one part only, full, short or empty', async (t) => {
    for (const size of [t.partSizeBytes, 1, 0]) {
      const bytes = t.random.bytes(size);
      const upload = await t.beginUpload(`size-${size}`);
      const receipts = [await putPart(upload, 0, bytes)];
      expectEqual([receipts[0]?.index, receipts[0]?.sizeBytes], [0, size], 'index and size of the receipt');
      await expectObject(t, `size-${size}`, bytes, await complete(upload, receipts, bytes));
    }
  }),

  check('upload: the last part may be full, short or empty', async (t) => {
    if (t.capabilities.maxParts < 2) return;
    for (const lastSize of [t.partSizeBytes, 1, 0]) {
      const bytes = t.random.bytes(t.partSizeBytes + lastSize);
      const upload = await t.beginUpload(`last-${lastSize}`);
      const receipts = [await putPart(upload, 0, bytes), await putPart(upload, 1, bytes)];
      await expectObject(t, `last-${lastSize}`, bytes, await complete(upload, receipts, bytes));
    }
  }),

  check('upload: nothing is visible before complete, and all of it after', async (t) => {
    const other = await t.open();
    const made = await tryToUpload(t, (key) => expectInvisible(t, t.nameOf(key), other));
    await expectObject(t, t.nameOf(made.key), made.bytes, made.info, other);
  }),

  check('complete: no reader sees a part of the object', async (t) => {
    const other = await t.open();
    for (let round = 0; round < 4; round++) {
      const bytes = t.random.bytes(Math.ceil(1.5 * t.partSizeBytes));
      const upload = await t.beginUpload(`round-${round}`);
      const receipts = [await putPart(upload, 0, bytes), await putPart(upload, 1, bytes)];
      const completed = complete(upload, receipts, bytes);
      await watchForParts({ store: other, key: upload.key, bytes, until: completed });
      await completed;
    }
  }),

  check('putPart: a part that is sent again replaces the first', async (t) => {
    const bytes = t.random.bytes(2 * t.partSizeBytes - 1);
    const upload = await t.beginUpload('a');
    const wrong = t.random.bytes(t.partSizeBytes);
    const second = await putPart(upload, 1, bytes);
    await putPart(upload, 0, wrong);
    await putPart(upload, 0, bytes);
    const first = await putPart(upload, 0, bytes);
    const listed = await upload.listParts();
    expectEqual(
      listed.map((part) => part.index),
      [0, 1],
      'indexes of the parts',
    );
    await expectObject(t, 'a', bytes, await complete(upload, [first, second], bytes));
  }),

  check(
    'putPart: the caller may use its buffer again once the call has ended, and it may be a view',
    async (t) => {
      const bytes = t.random.bytes(t.partSizeBytes + 1);
      const buffer = new Uint8Array(t.partSizeBytes + 200);
      const upload = await t.beginUpload('a');
      const receipts: PartReceipt[] = [];
      for (const index of [0, 1]) {
        const part = partOf(bytes, index, t.partSizeBytes);
        const view = buffer.subarray(100, 100 + part.byteLength);
        view.set(part);
        receipts.push(await upload.putPart(index, view, { crc32c: crc32c(part) }));
        buffer.fill(0xee);
      }
      await expectObject(t, 'a', bytes, await complete(upload, receipts, bytes));
    },
  ),

  check('listParts: the parts that the store has, in order, as the receipts said', async (t) => {
    const upload = await t.beginUpload('a');
    expectEqual(await upload.listParts(), [], 'parts of a new upload');
    const bytes = t.random.bytes(2 * t.partSizeBytes + 5);
    const receipts: PartReceipt[] = [];
    for (const index of [2, 0, 1]) {
      receipts[index] = await putPart(upload, index, bytes);
      const listed = await upload.listParts();
      const sent = receipts.filter((receipt) => receipt !== undefined);
      expectEqual(listed.map(indexAndSize), sent.map(indexAndSize), 'index and size of the parts');
      expectEqual(
        listed.map((part) => part.etag),
        sent.map((part) => part.etag),
        'etags of the parts',
      );
    }
    const listed = await upload.listParts();
    for (const part of listed) {
      const expected = crc32c(partOf(bytes, part.index, t.partSizeBytes));
      const isRight = part.crc32c === undefined || part.crc32c === expected;
      expectTrue(isRight, `crc32c of part ${part.index}`, `${expected}, or none`, part.crc32c);
    }
    await expectObject(t, 'a', bytes, await complete(upload, listed, bytes));
  }),

  check(
    'complete: a wrong size or CRC32C of the whole is refused without effect, where checksums are verified',
    async (t) => {
      if (!t.capabilities.verifiesChecksums) return;
      const bytes = t.random.bytes(t.partSizeBytes + 7);
      const upload = await t.beginUpload('a');
      const receipts = [await putPart(upload, 0, bytes), await putPart(upload, 1, bytes)];
      const right = { sizeBytes: bytes.byteLength, crc32c: crc32c(bytes) };
      const wrongCrc = () => upload.complete(receipts, { ...right, crc32c: (right.crc32c ^ 1) >>> 0 });
      await expectRejection(wrongCrc, 'Corrupt', 'complete with a wrong checksum');
      for (const sizeBytes of [right.sizeBytes - 1, right.sizeBytes + 1]) {
        const wrongSize = () => upload.complete(receipts, { ...right, sizeBytes });
        await expectRejection(wrongSize, ['Corrupt', 'InvalidArgument'], `complete with size ${sizeBytes}`);
      }
      await expectInvisible(t, 'a', t.store);
      await expectObject(t, 'a', bytes, await upload.complete(receipts, right));
    },
  ),

  check('complete: repeated, it succeeds again or is NotFound, and changes nothing', async (t) => {
    const bytes = t.random.bytes(100);
    const upload = await t.beginUpload('a');
    const receipts = [await putPart(upload, 0, bytes)];
    const info = await complete(upload, receipts, bytes);
    const again = () => complete(upload, receipts, bytes);
    await again().catch(() => expectRejection(again, 'NotFound', 'complete, repeated'));
    await expectObject(t, 'a', bytes, info);
  }),

  check('uploads of different keys at the same time do not mix', async (t) => {
    const contents = Array.from({ length: 4 }, () => t.random.bytes(t.partSizeBytes + 9));
    const uploads = await Promise.all(contents.map((_, index) => t.beginUpload(`u-${index}`)));
    const tokens = new Set(uploads.map((upload) => upload.token));
    expectEqual(tokens.size, uploads.length, 'count of different tokens');
    const receipts = await Promise.all(
      uploads.map((upload, n) =>
        Promise.all([0, 1].map((index) => putPart(upload, index, contents[n] as Uint8Array))),
      ),
    );
    for (const [n, upload] of uploads.entries()) {
      const bytes = contents[n] as Uint8Array;
      await expectObject(t, `u-${n}`, bytes, await complete(upload, receipts[n] as PartReceipt[], bytes));
    }
  }),

  check('abort: the upload is gone and leaves nothing; it is safe to repeat', async (t) => {
    await tryToAbort(t);
    const bytes = t.random.bytes(2 * t.partSizeBytes);
    const upload = await t.beginUpload('a');
    const receipts = [await putPart(upload, 0, bytes), await putPart(upload, 1, bytes)];
    await upload.abort();
    await upload.abort();
    await expectRejection(() => complete(upload, receipts, bytes), 'NotFound', 'complete after abort');
    await expectRejection(() => putPart(upload, 0, bytes), 'NotFound', 'putPart after abort');
    await expectRejection(() => upload.listParts(), 'NotFound', 'listParts after abort');
    await expectInvisible(t, 'a', t.store);
  }),

  check('abort: while parts are being sent, every call ends and nothing becomes visible', async (t) => {
    const bytes = t.random.bytes(3 * t.partSizeBytes);
    const upload = await t.beginUpload('a');
    const sending = Promise.allSettled([0, 1, 2].map((index) => putPart(upload, index, bytes)));
    await upload.abort();
    const receipts = (await sending).flatMap((sent) => (sent.status === 'fulfilled' ? [sent.value] : []));
    await upload.abort(); // Frees parts that arrived after the first one.
    await expectRejection(() => complete(upload, receipts, bytes), 'NotFound', 'complete after abort');
    await expectInvisible(t, 'a', t.store);
  }),

  check('abort: after complete it does not undo it', async (t) => {
    const bytes = t.random.bytes(t.partSizeBytes + 1);
    const upload = await t.beginUpload('a');
    const receipts = [await putPart(upload, 0, bytes), await putPart(upload, 1, bytes)];
    const info = await complete(upload, receipts, bytes);
    await upload.abort();
    await upload.abort();
    await expectObject(t, 'a', bytes, info);
  }),
];

function partOf(bytes: Uint8Array, index: number, partSizeBytes: number): Uint8Array {
  return bytes.subarray(index * partSizeBytes, (index + 1) * partSizeBytes);
}

/** Sends part `index` of `bytes`. */
export function putPart(upload: Upload, index: number, bytes: Uint8Array): Promise<PartReceipt> {
  const part = partOf(bytes, index, upload.partSizeBytes);
  return upload.putPart(index, part, { crc32c: crc32c(part) });
}

export function complete(
  upload: Upload,
  receipts: readonly PartReceipt[],
  bytes: Uint8Array,
): Promise<ObjectInfo> {
  return upload.complete(receipts, { sizeBytes: bytes.byteLength, crc32c: crc32c(bytes) });
}

function indexAndSize(part: PartReceipt): [number, number] {
  return [part.index, part.sizeBytes];
}

/** Checks that the object exists, is complete, and matches `info`, as seen by this reader. */
export async function expectObject(
  t: Scratch,
  name: string,
  bytes: Uint8Array,
  info: ObjectInfo,
  reader: ObjectStore = t.store,
): Promise<void> {
  const key = t.key(name);
  expectEqual([info.key, info.sizeBytes], [key, bytes.byteLength], 'key and size that complete answers');
  const head = await reader.head(key);
  expectEqual(
    [head.etag, head.sizeBytes],
    [info.etag, bytes.byteLength],
    'etag and size of the completed object',
  );
  const buffer = new Uint8Array(bytes.byteLength);
  const count = await reader.readInto(key, 0, buffer, { etag: info.etag });
  expectEqual(count, bytes.byteLength, 'bytes read of the completed object');
  expectBytes(buffer, bytes, 'the completed object');
  const names = await t.listNames(name, { store: reader });
  expectTrue(names.includes(name), 'a listing after complete', name, names);
}

export async function expectInvisible(t: Scratch, name: string, reader: ObjectStore): Promise<void> {
  const key = t.key(name);
  await expectRejection(() => reader.head(key), 'NotFound', 'head of an object that is not completed');
  await expectRejection(
    () => reader.get(key, { maxBytes: 2 ** 40 }),
    'NotFound',
    'get of an object that is not completed',
  );
  const read = () => reader.readInto(key, 0, new Uint8Array(10));
  await expectRejection(read, 'NotFound', 'readInto of an object that is not completed');
  expectEqual(await t.listNames('', { store: reader }), [], 'a listing before complete');
}
