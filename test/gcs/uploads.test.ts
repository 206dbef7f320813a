/** Uploads in parts, in each mode, with errors on the way. */

import { createHash } from 'node:crypto';
import { crc32c } from '@holdfast/core';
import type { ObjectStore, PartReceipt, Upload } from '@holdfast/core/contract';
import { openGcsStore } from '@holdfast/store-gcs';
import { describe, expect, test } from 'vitest';
import { errorOf, openUploads, type Reply } from '../scripted/scripted-server.ts';
import { refusal } from './fake-gcs.ts';
import { xmlRefusal } from './fake-uploads.ts';
import {
  afterEffect,
  type GcsScript,
  isBegin,
  isComplete,
  isCompose,
  isInsert,
  isMetadata,
  isPart,
  onlyFor,
  type ScriptedGcs,
  scriptedGcs,
} from './scripted-gcs.ts';

const PART_BYTES = 5 * 1024 * 1024;
const BYTES = Buffer.alloc(PART_BYTES + 3, 'holdfast ');
const WHOLE = { sizeBytes: BYTES.byteLength, crc32c: crc32c(BYTES) };

async function sendParts(upload: Upload): Promise<PartReceipt[]> {
  const parts = [BYTES.subarray(0, PART_BYTES), BYTES.subarray(PART_BYTES)];
  return Promise.all(parts.map((part, index) => upload.putPart(index, part, { crc32c: crc32c(part) })));
}

/** An upload whose two parts have both been sent. */
async function sent(store: ObjectStore): Promise<{ upload: Upload; receipts: PartReceipt[] }> {
  const upload = await store.beginUpload('a/b', { partSizeBytes: PART_BYTES });
  return { upload, receipts: await sendParts(upload) };
}

async function openFake(script?: GcsScript, settings?: Record<string, string>) {
  const server = await scriptedGcs(script);
  return { server, store: await server.open(settings) };
}

/** Applies the script to the first matching request and not to later ones. */
function once(matches: Parameters<typeof onlyFor>[0], script: GcsScript): GcsScript {
  let isFirst = true;
  return onlyFor(
    (request) => isFirst && matches(request),
    (request, fake, index) => {
      isFirst = false;
      return script(request, fake, index);
    },
  );
}

/**
 * True if the object is exactly what was sent. It compares the bytes itself, because matchers
 * compare megabytes byte by byte.
 */
const isWhole = async (store: ObjectStore) =>
  BYTES.equals((await store.get('a/b', { maxBytes: BYTES.byteLength })).bytes);

describe('multipart', () => {
  test('asks as the XML API wants to be asked', async () => {
    const { server, store } = await openFake();
    const { upload, receipts } = await sent(store);
    const info = await upload.complete(receipts, WHOLE);
    expect(await store.head('a/b')).toEqual({ ...info, crc32c: WHOLE.crc32c });
    expect(await isWhole(store)).toBe(true);
    const [begin, first, second, complete, head] = server.requests;
    expect([begin?.method, begin?.target]).toEqual(['POST', '/runs/gpt/a/b?uploads=']);
    expect(begin?.headers).toMatchObject({
      'content-length': '0',
      'content-type': 'application/octet-stream',
      'cache-control': 'no-transform',
    });
    expect([first?.query.get('partNumber'), second?.query.get('partNumber')].sort()).toEqual(['1', '2']);
    expect(first?.headers['x-goog-hash']).toMatch(/^crc32c=[A-Za-z0-9+/]{6}==$/);
    expect(complete?.body.toString()).toBe(
      `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"${receipts[0]?.etag}"</ETag></Part><Part><PartNumber>2</PartNumber><ETag>"${receipts[1]?.etag}"</ETag></Part></CompleteMultipartUpload>`,
    );
    expect(head === undefined ? false : isMetadata(head)).toBe(true);
  });

  test('lists parts page by page', async () => {
    const { server, store } = await openFake();
    const upload = await store.beginUpload('a', { partSizeBytes: PART_BYTES });
    server.fake.uploads.pageSize = 2;
    for (let index = 0; index < 5; index++)
      await upload.putPart(index, BYTES.subarray(0, 1), { crc32c: crc32c(BYTES.subarray(0, 1)) });
    const parts = await upload.listParts();
    const md5 = createHash('md5').update(BYTES.subarray(0, 1)).digest('hex');
    expect(parts).toEqual([0, 1, 2, 3, 4].map((index) => ({ index, sizeBytes: 1, md5, etag: md5 })));
    const markers = server.requests.slice(-3).map(({ query }) => query.get('part-number-marker'));
    expect(markers).toEqual([null, '2', '4']);
  });

  test('parts that together are something else are refused before anything is put together', async () => {
    const { server, store } = await openFake();
    const { upload, receipts } = await sent(store);
    const error = await errorOf(upload.complete(receipts, { ...WHOLE, crc32c: 1 }));
    expect([error.code, error.status]).toEqual(['Corrupt', 'permanent']);
    expect(server.requests.some(isComplete)).toBe(false);
    await upload.complete(receipts, WHOLE);
  });

  test('parts whose checksums are not known are found out afterwards, and the object is deleted', async () => {
    const { server, store } = await openFake();
    const { upload } = await sent(store);
    const error = await errorOf(upload.complete(await upload.listParts(), { ...WHOLE, crc32c: 1 }));
    expect([error.code, error.status]).toEqual(['Corrupt', 'permanent']);
    expect(server.fake.objects.size).toBe(0);
  });

  test('another process goes on by the token, with parts whose checksums it does not know', async () => {
    const { server, store } = await openFake();
    const { upload } = await sent(store);
    const resumed = await (await server.open()).resumeUpload(upload.token);
    expect(await resumed.complete(await resumed.listParts(), WHOLE)).toMatchObject({ key: 'a/b' });
    expect(await isWhole(store)).toBe(true);
  });

  test.each<[string, Reply, string, string]>([
    ['200 with an error', { ...xmlRefusal(500, 'InternalError'), status: 200 }, 'Unavailable', 'temporary'],
    [
      '200, blanks for a while, and then an error',
      { body: `\n\n   ${xmlRefusal(500, 'SlowDown').body}` },
      'Throttled',
      'temporary',
    ],
    ['503', xmlRefusal(503, 'ServiceUnavailable'), 'Unavailable', 'temporary'],
    ['a reset', 'reset', 'Unavailable', 'temporary'],
    ['a part that is gone', xmlRefusal(400, 'InvalidPart'), 'InvalidArgument', 'permanent'],
    ['no such upload', xmlRefusal(404, 'NoSuchUpload'), 'NotFound', 'permanent'],
  ])('complete answered with %s', async (_name, reply, code, status) => {
    const { store } = await openFake(onlyFor(isComplete, reply));
    const { upload, receipts } = await sent(store);
    expect(await errorOf(upload.complete(receipts, WHOLE))).toMatchObject({ code, status });
  });

  test('the answer to complete is lost: repeated, it is NotFound, and the object is there', async () => {
    const { store } = await openFake(once(isComplete, afterEffect('reset')));
    const { upload, receipts } = await sent(store);
    expect((await errorOf(upload.complete(receipts, WHOLE))).status).toBe('temporary');
    expect((await errorOf(upload.complete(receipts, WHOLE))).code).toBe('NotFound');
    expect(await isWhole(store)).toBe(true);
  });

  test('a part that was damaged on its way is refused by the store', async () => {
    const { store } = await openFake();
    const upload = await store.beginUpload('a', { partSizeBytes: PART_BYTES });
    expect((await errorOf(upload.putPart(0, Buffer.from('x'), { crc32c: 1 }))).code).toBe('Corrupt');
  });

  test.each<[string, Reply, string]>([
    ['no XML', { body: 'welcome' }, 'InvalidConfig'],
    ['a missing bucket', xmlRefusal(404, 'NoSuchBucket'), 'NotFound'],
    ['a permission that is missing', xmlRefusal(403, 'AccessDenied'), 'Denied'],
  ])('begin answered with %s', async (_name, reply, code) => {
    const { store } = await openFake(onlyFor(isBegin, reply));
    expect((await errorOf(store.beginUpload('a', { partSizeBytes: PART_BYTES }))).code).toBe(code);
  });

  test('abort: an upload that is gone is gone; another failure is told', async () => {
    const { server, store } = await openFake();
    const { upload } = await sent(store);
    server.fake.uploads.begun.clear();
    await upload.abort();
    const denied = await openFake(
      onlyFor(({ method }) => method === 'DELETE', xmlRefusal(403, 'AccessDenied')),
    );
    const other = await denied.store.beginUpload('a', { partSizeBytes: PART_BYTES });
    expect((await errorOf(other.abort())).code).toBe('Denied');
  });

  test('a part moves slowly: the one who watches hears of each piece', async () => {
    const { store } = await openFake();
    const upload = await store.beginUpload('a', { partSizeBytes: PART_BYTES });
    let count = 0;
    const part = BYTES.subarray(0, PART_BYTES);
    await upload.putPart(0, part, { crc32c: crc32c(part), onBytes: () => count++ });
    expect(count).toBeGreaterThan(1);
  });
});

const CUT_LIST = '<ListMultipartUploadsResult><IsTruncated>false</IsTruncated><Upload><Key>gpt/v';

test.each<[string, 'POST' | 'GET', string]>([
  ['the id of an upload', 'POST', '<InitiateMultipartUploadResult><UploadId>U1</UploadId>'],
  ['a list of parts', 'GET', '<ListPartsResult><IsTruncated>false</IsTruncated>'],
])('multipart: %s that is cut off is a broken answer', async (_name, method, body) => {
  const { store } = await openFake(onlyFor((request) => request.method === method, { body }));
  const list = async () => (await store.beginUpload('a', { partSizeBytes: PART_BYTES })).listParts();
  expect(await errorOf(list())).toMatchObject({ code: 'Unavailable', status: 'temporary' });
});

test('multipart: a server that quotes the id of the upload: it is told no further', async () => {
  const { store } = await openFake((request) => {
    const id = request.query.get('uploadId');
    return id === null ? undefined : xmlRefusal(403, 'AccessDenied', `not yours: ${id}, or ${btoa(id)}`);
  });
  const upload = await store.beginUpload('a', { partSizeBytes: PART_BYTES });
  const { message, cause } = await errorOf(sendParts(upload));
  expect(message).toContain('not yours: [secret], or [secret]');
  const { uploadId } = JSON.parse(Buffer.from(upload.token, 'base64url').toString());
  expect(uploadId).not.toBe('');
  expect(String(cause)).not.toContain(uploadId);
});

describe('listUploads', () => {
  test('multipart: goes from page to page, and shows what is an upload of the store', async () => {
    const { server, store } = await openFake();
    server.fake.uploads.pageSize = 2;
    for (const key of ['v/a', 'v/b&c', 'v/d', 'w'])
      await store.beginUpload(key, { partSizeBytes: PART_BYTES });
    const other = await openGcsStore(server.uri().replace('/gpt?', '/elsewhere?'), {});
    await other.beginUpload('v/a', { partSizeBytes: PART_BYTES });
    await other.close();
    const uploads = await openUploads(store, 'v/');
    expect(uploads.map(({ key }) => key)).toEqual(['v/a', 'v/b&c', 'v/d']);
    expect(Date.now() - (uploads[0]?.beganAtMs ?? 0)).toBeLessThan(60_000);
    const asked = server.requests.filter(({ query, method }) => method === 'GET' && query.has('uploads'));
    expect(asked.map(({ query }) => [query.get('prefix'), query.get('key-marker')])).toEqual([
      ['gpt/v/', null],
      ['gpt/v/', 'gpt/v/b&c'],
    ]);
    const upload = await store.resumeUpload(uploads[1]?.token ?? '');
    expect(upload.partSizeBytes).toBe(0);
    expect((await errorOf(upload.putPart(0, Buffer.from('x'), { crc32c: 1 }))).code).toBe('InvalidArgument');
    await upload.abort();
    expect((await openUploads(store, 'v/')).map(({ key }) => key)).toEqual(['v/a', 'v/d']);
  });

  test.each<[string, Reply, string]>([
    ['a page that is cut off', { body: CUT_LIST }, 'Unavailable'],
    ['no XML', { body: 'welcome' }, 'InvalidConfig'],
    ['a permission that is missing', xmlRefusal(403, 'AccessDenied'), 'Denied'],
  ])('multipart: answered with %s', async (_name, reply, code) => {
    const { store } = await openFake(onlyFor(({ query }) => query.has('uploads'), reply));
    expect((await errorOf(openUploads(store))).code).toBe(code);
  });

  test('compose: one whose mark is gone or foreign is left out; what it shows can be completed', async () => {
    const { server, store } = await openFake(undefined, { uploads: 'compose' });
    const { upload } = await sent(store);
    const gone = await store.beginUpload('gone', { partSizeBytes: PART_BYTES });
    await gone.putPart(0, Buffer.from('x'), { crc32c: crc32c(Buffer.from('x')) });
    const marks = [...server.fake.objects.keys()].filter((name) => name.endsWith('/begun'));
    server.fake.objects.delete(marks[1] ?? '');
    const request = server.requests[0] as (typeof server.requests)[number];
    server.fake.put('gpt/.holdfast-compose/x/begun', Buffer.from('not JSON'), request);
    server.fake.put('gpt/.holdfast-compose/y/begun', Buffer.from('{"key":1}'), request);
    const [shown, ...more] = await openUploads(store);
    expect(more).toEqual([]);
    expect(shown).toMatchObject({ key: 'a/b', sizeBytes: BYTES.byteLength, token: upload.token });
    const other = await (await server.open({ uploads: 'compose' })).resumeUpload(shown?.token ?? '');
    await other.complete(await other.listParts(), WHOLE);
    expect(await isWhole(store)).toBe(true);
    expect(await openUploads(store)).toEqual([]);
  });

  test('compose: a mark that vanishes while it is read is that of an upload that has ended', async () => {
    const isMark = ({ path }: { path: string }) => path.startsWith('/download') && path.includes('begun');
    const { store } = await openFake(onlyFor(isMark, refusal(404, 'notFound')), { uploads: 'compose' });
    await store.beginUpload('a', { partSizeBytes: PART_BYTES });
    expect(await openUploads(store)).toEqual([]);
    const denied = await openFake(onlyFor(isMark, refusal(403, 'forbidden')), { uploads: 'compose' });
    await denied.store.beginUpload('a', { partSizeBytes: PART_BYTES });
    expect((await errorOf(openUploads(denied.store))).code).toBe('Denied');
  });

  test('single: there is nothing in the store to be listed', async () => {
    const { store } = await openFake(undefined, { uploads: 'single' });
    expect(store.listUploads).toBeUndefined();
  });
});

describe('compose', () => {
  const COMPOSE = { uploads: 'compose' };
  const own = ({ fake }: ScriptedGcs) =>
    [...fake.objects.keys()].filter((name) => name.includes('.holdfast-'));

  test('parts are objects of their own until the object is there, and nothing remains of them', async () => {
    const { server, store } = await openFake(undefined, COMPOSE);
    const { upload, receipts } = await sent(store);
    expect(own(server)).toHaveLength(3);
    const info = await upload.complete(receipts, WHOLE);
    expect(await store.head('a/b')).toEqual({ ...info, crc32c: WHOLE.crc32c });
    expect(await isWhole(store)).toBe(true);
    expect(own(server)).toEqual([]);
    const compose = server.requests.find(isCompose);
    expect(compose?.query.get('ifGenerationMatch')).toBe('0');
    expect(JSON.parse(compose?.body.toString() ?? '')).toMatchObject({
      sourceObjects: [
        { name: expect.stringContaining('/part-00000-') },
        { name: expect.stringContaining('/part-00001-') },
      ],
      destination: { contentType: 'application/octet-stream', cacheControl: 'no-transform' },
    });
  });

  test('more than 32 parts: none of what is put together has more', async () => {
    const { server, store } = await openFake(undefined, COMPOSE);
    const bytes = Buffer.from(Array.from({ length: 70 }, (_, index) => index));
    const upload = await store.beginUpload('a/b', { partSizeBytes: 1 });
    const receipts = await Promise.all(
      Array.from(bytes, (_, index) => {
        const part = bytes.subarray(index, index + 1);
        return upload.putPart(index, part, { crc32c: crc32c(part) });
      }),
    );
    await upload.complete(receipts, { sizeBytes: 70, crc32c: crc32c(bytes) });
    expect(Buffer.from((await store.get('a/b', { maxBytes: 70 })).bytes)).toEqual(bytes);
    const counts = server.requests
      .filter(isCompose)
      .map(({ body }) => (JSON.parse(body.toString()) as { sourceObjects: unknown[] }).sourceObjects.length);
    expect(counts.sort((a, b) => b - a)).toEqual([32, 32, 6, 3]);
    expect(own(server)).toEqual([]);
  });

  test('a part that comes twice changes nothing, and one with other bytes replaces it', async () => {
    const { server, store } = await openFake(undefined, COMPOSE);
    const upload = await store.beginUpload('a/b', { partSizeBytes: PART_BYTES });
    const wrong = Buffer.from('wrong');
    await upload.putPart(1, wrong, { crc32c: crc32c(wrong) });
    await sendParts(upload);
    const again = await sendParts(upload);
    expect(await upload.listParts()).toEqual(again);
    const other = await (await server.open(COMPOSE)).resumeUpload(upload.token);
    await other.complete(await other.listParts(), WHOLE);
    expect(await isWhole(store)).toBe(true);
  });

  test.each<[string, GcsScript]>([
    ['the answer is lost', afterEffect('reset')],
    ['503 after the effect', afterEffect(refusal(503, 'backendError'))],
    ['503 before it', () => refusal(503, 'backendError')],
  ])('compose: %s; repeated, it succeeds and the object is the same', async (_name, script) => {
    const { server, store } = await openFake(once(isCompose, script), COMPOSE);
    const { upload, receipts } = await sent(store);
    expect((await errorOf(upload.complete(receipts, WHOLE))).status).toBe('temporary');
    const info = await upload.complete(receipts, WHOLE);
    expect(await store.head('a/b')).toEqual({ ...info, crc32c: WHOLE.crc32c });
    expect(own(server)).toEqual([]);
  });

  test('an object of another writer under the key is neither replaced nor deleted', async () => {
    const { server, store } = await openFake(undefined, COMPOSE);
    const { upload, receipts } = await sent(store);
    await store.create('a/b', Buffer.from('other'));
    expect((await errorOf(upload.complete(receipts, WHOLE))).code).toBe('AlreadyExists');
    expect(server.fake.objects.get('gpt/a/b')?.bytes.toString()).toBe('other');
  });

  test('a part that is lost is told, and nothing is put together', async () => {
    const { server, store } = await openFake(undefined, COMPOSE);
    const { upload, receipts } = await sent(store);
    for (const name of own(server).filter((name) => name.includes('part-00001')))
      server.fake.objects.delete(name);
    expect((await errorOf(upload.complete(receipts, WHOLE))).code).toBe('NotFound');
    expect(server.fake.objects.has('gpt/a/b')).toBe(false);
  });

  test('parts that remain because they may not be deleted do not undo the object', async () => {
    const { store } = await openFake(
      onlyFor(({ method }) => method === 'DELETE', refusal(403, 'forbidden')),
      COMPOSE,
    );
    const { upload, receipts } = await sent(store);
    await upload.complete(receipts, WHOLE);
    expect(await isWhole(store)).toBe(true);
    expect((await errorOf(upload.abort())).code).toBe('Denied');
  });

  test('abort is found to be incomplete as long as something is there', async () => {
    const { server, store } = await openFake(
      once(
        ({ method }) => method === 'DELETE',
        () => refusal(503, 'backendError'),
      ),
      COMPOSE,
    );
    const { upload } = await sent(store);
    expect((await errorOf(upload.abort())).status).toBe('temporary');
    const other = await server.open(COMPOSE);
    await (await other.resumeUpload(upload.token)).abort();
    expect(server.fake.objects.size).toBe(0);
    expect((await errorOf(other.resumeUpload(upload.token))).code).toBe('NotFound');
  });

  test('begun one way, it is aborted by a store that sends another way', async () => {
    const { server, store } = await openFake(undefined, COMPOSE);
    const { upload } = await sent(store);
    await (await (await server.open({ uploads: 'multipart' })).resumeUpload(upload.token)).abort();
    expect(server.fake.objects.size).toBe(0);
  });

  test.each([
    [{ retentionPolicy: { retentionPeriod: '86400' } }, 'has a retention policy'],
    [{ defaultEventBasedHold: true }, 'has a hold on every object'],
  ])('a bucket that keeps everything is refused before anything is written: %o', async (bucket, words) => {
    const { server, store } = await openFake(undefined, COMPOSE);
    server.fake.bucket = bucket;
    const error = await errorOf(store.beginUpload('a', { partSizeBytes: PART_BYTES }));
    expect(error.code).toBe('Unsupported');
    expect(error.message).toContain(words);
    expect(server.requests.some(isInsert)).toBe(false);
  });

  test('a bucket that may not be looked at is taken as it is', async () => {
    const isBucket = ({ path }: { path: string }) => path === '/storage/v1/b/runs';
    const { store } = await openFake(onlyFor(isBucket, refusal(403, 'forbidden')), COMPOSE);
    await (await store.beginUpload('a', { partSizeBytes: PART_BYTES })).abort();
    const lost = await openFake(onlyFor(isBucket, refusal(503, 'backendError')), COMPOSE);
    expect((await errorOf(lost.store.beginUpload('a', { partSizeBytes: 1 }))).code).toBe('Unavailable');
  });
});

describe('single', () => {
  const SINGLE = { uploads: 'single' };

  test('is one create, when all is there', async () => {
    const { server, store } = await openFake(undefined, SINGLE);
    const { upload, receipts } = await sent(store);
    expect(server.requests).toHaveLength(0);
    await upload.complete(receipts, WHOLE);
    expect(server.requests.map(isInsert)).toEqual([true]);
    expect(await isWhole(store)).toBe(true);
  });

  test('the answer is lost: repeated, it finds its own object', async () => {
    const { store } = await openFake(once(isInsert, afterEffect('reset')), SINGLE);
    const { upload, receipts } = await sent(store);
    expect((await errorOf(upload.complete(receipts, WHOLE))).status).toBe('temporary');
    const info = await upload.complete(receipts, WHOLE);
    expect(await store.head('a/b')).toEqual({ ...info, crc32c: WHOLE.crc32c });
  });

  test('bytes that are not what they should be are refused by the store', async () => {
    const { server, store } = await openFake(undefined, SINGLE);
    const { upload, receipts } = await sent(store);
    expect((await errorOf(upload.complete(receipts, { ...WHOLE, crc32c: 1 }))).code).toBe('Corrupt');
    expect(server.fake.objects.size).toBe(0);
  });

  test('a receipt of another upload is refused', async () => {
    const { store } = await openFake(undefined, SINGLE);
    const { upload, receipts } = await sent(store);
    const forged = receipts.map((receipt) => ({ ...receipt, etag: 'other' }));
    expect((await errorOf(upload.complete(forged, WHOLE))).code).toBe('InvalidArgument');
  });

  test('no other process can continue it', async () => {
    const { store } = await openFake(undefined, SINGLE);
    const { upload } = await sent(store);
    expect((await errorOf(store.resumeUpload(upload.token))).code).toBe('Unsupported');
  });
});

describe('tokens', () => {
  const token = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const good = { strategy: 'multipart', key: 'a', uploadId: 'U', partSizeBytes: PART_BYTES };

  test.each([
    ['no text of ours', 'x'],
    ['of another strategy', token({ ...good, strategy: 'copy' })],
    ['without a key', token({ ...good, key: undefined })],
    ['whose id leads elsewhere', token({ ...good, uploadId: '../../x y' })],
    ['with a size that is none', token({ ...good, partSizeBytes: -1 })],
    ['with a key that is none', token({ ...good, key: '../a' })],
  ])('%s: InvalidArgument', async (_name, text) => {
    const { server, store } = await openFake();
    expect((await errorOf(store.resumeUpload(text))).code).toBe('InvalidArgument');
    expect(server.requests).toHaveLength(0);
  });
});

test('a part is sent again to a new connection when the old one turns out closed', async () => {
  let parts = 0;
  const { server, store } = await openFake(onlyFor(isPart, () => (++parts === 2 ? 'reset' : undefined)));
  const upload = await store.beginUpload('a/b', { partSizeBytes: PART_BYTES });
  const part = BYTES.subarray(0, PART_BYTES);
  await upload.putPart(0, part, { crc32c: crc32c(part) });
  await upload.putPart(1, part, { crc32c: crc32c(part) });
  expect([parts, server.connections]).toEqual([3, 2]);
});
