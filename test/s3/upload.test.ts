/** Uploads in parts, on stores that deviate from S3, and with lost answers. */

import { describe, expect, test } from 'vitest';
import { errorOf, openUploads, type Reply, type Script, sequence } from '../scripted/scripted-server.ts';
import { object, refusal, scriptedS3, uploadGoesWell } from './scripted-s3.ts';

const PART_BYTES = 5 * 1024 * 1024;
const BYTES = new Uint8Array(10).fill(7);

const isBegin: (request: Parameters<Script>[0]) => boolean = ({ query }) => query.has('uploads');
const isComplete: typeof isBegin = ({ method, query }) => method === 'POST' && query.has('uploadId');

/** Like `uploadGoesWell`, with another answer for some requests. */
function except(matches: typeof isBegin, reply: Reply): Script {
  return (request, index) => (matches(request) ? reply : uploadGoesWell(request, index));
}

describe('a store without checksums of whole objects', () => {
  const types: (string | undefined)[] = [];
  const refusesFull =
    (code: string): Script =>
    (request, index) => {
      if (isBegin(request)) types.push(request.headers['x-amz-checksum-type']);
      const wantsFull = isBegin(request) && request.headers['x-amz-checksum-type'] === 'FULL_OBJECT';
      return wantsFull
        ? refusal(code === 'NotImplemented' ? 501 : 400, code)
        : uploadGoesWell(request, index);
    };

  test.each(['InvalidRequest', 'InvalidArgument', 'NotImplemented'])(
    '%s: asked once more with checksums of parts alone, and not asked again by this store',
    async (code) => {
      types.length = 0;
      const server = await scriptedS3(refusesFull(code));
      const store = await server.open();
      for (const key of ['a', 'b']) {
        const upload = await store.beginUpload(key, { partSizeBytes: PART_BYTES });
        const part = await upload.putPart(0, BYTES, { crc32c: 2 });
        await upload.complete([part], { sizeBytes: BYTES.byteLength, crc32c: 3 });
      }
      expect(types).toEqual(['FULL_OBJECT', undefined, undefined]);
      for (const request of server.requests.filter(isComplete))
        expect(request.headers).not.toHaveProperty('x-amz-checksum-crc32c');
    },
  );

  test('one that refuses both is asked with both, and its refusal is told', async () => {
    const server = await scriptedS3(() => refusal(400, 'InvalidArgument'));
    const store = await server.open();
    expect((await errorOf(store.beginUpload('a', { partSizeBytes: PART_BYTES }))).code).toBe(
      'InvalidArgument',
    );
    expect(server.requests).toHaveLength(2);
    await errorOf(store.beginUpload('a', { partSizeBytes: PART_BYTES }));
    expect(server.requests[2]?.headers['x-amz-checksum-type']).toBe('FULL_OBJECT');
  });

  test('a refusal of another kind is not taken for one of checksums', async () => {
    const server = await scriptedS3(() => refusal(403, 'AccessDenied'));
    const store = await server.open();
    expect((await errorOf(store.beginUpload('a', { partSizeBytes: PART_BYTES }))).code).toBe('Denied');
    expect(server.requests).toHaveLength(1);
  });
});

describe('head', () => {
  test.each<[string, Record<string, string>, number | undefined]>([
    ['FULL_OBJECT', { 'x-amz-checksum-crc32c': 'AAAAAg==', 'x-amz-checksum-type': 'FULL_OBJECT' }, 2],
    ['no type, of a store that knows none', { 'x-amz-checksum-crc32c': 'AAAAAg==' }, 2],
    ['COMPOSITE', { 'x-amz-checksum-crc32c': 'AAAAAg==', 'x-amz-checksum-type': 'COMPOSITE' }, undefined],
    ['of parts, by its form', { 'x-amz-checksum-crc32c': 'AAAAAg==-2' }, undefined],
    ['another sum', { 'x-amz-checksum-crc64nvme': 'AAAAAAAAAAI=' }, undefined],
  ])('a checksum is told if it is one of the whole: %s', async (_name, headers, expected) => {
    const server = await scriptedS3(() => object('0123456789', headers));
    expect((await (await server.open()).head('a')).crc32c).toBe(expected);
    expect(server.requests[0]?.headers).toMatchObject({ 'x-amz-checksum-mode': 'ENABLED' });
    await (await server.open({ checksum: 'none' })).head('a');
    expect(server.requests[1]?.headers).not.toHaveProperty('x-amz-checksum-mode');
  });
});

describe('complete', () => {
  async function completed(reply: Reply) {
    const server = await scriptedS3(except(isComplete, reply));
    const store = await server.open();
    const upload = await store.beginUpload('a', { partSizeBytes: PART_BYTES });
    const part = await upload.putPart(0, BYTES, { crc32c: 2 });
    return errorOf(upload.complete([part], { sizeBytes: BYTES.byteLength, crc32c: 3 }));
  }

  test.each<[string, Reply, string, string]>([
    ['200 with an error', refusal(200, 'InternalError'), 'Unavailable', 'temporary'],
    ['200 with SlowDown', refusal(200, 'SlowDown'), 'Throttled', 'temporary'],
    [
      '200, blanks for a while, and then an error',
      {
        status: 200,
        body: `<?xml version="1.0"?>\n${' '.repeat(5000)}<Error><Code>InternalError</Code></Error>`,
      },
      'Unavailable',
      'temporary',
    ],
    ['a reset', 'reset', 'Unavailable', 'temporary'],
    ['500', refusal(500, 'InternalError'), 'Unavailable', 'temporary'],
    ['404: it is gone, or complete already', refusal(404, 'NoSuchUpload'), 'NotFound', 'permanent'],
    ['a wrong checksum of the whole', refusal(400, 'BadDigest'), 'Corrupt', 'permanent'],
    ['a part that is another one', refusal(400, 'InvalidPart'), 'InvalidArgument', 'permanent'],
  ])('%s is %4$s', async (_name, reply, code, status) => {
    const error = await completed(reply);
    expect([error.code, error.status]).toEqual([code, status]);
  });
});

describe('abort', () => {
  test('the abort of an upload that is gone does nothing', async () => {
    const server = await scriptedS3(
      except(({ method }) => method === 'DELETE', refusal(404, 'NoSuchUpload')),
    );
    const store = await server.open();
    const upload = await store.beginUpload('a', { partSizeBytes: PART_BYTES });
    await expect(upload.abort()).resolves.toBeUndefined();
  });

  test('that is not allowed says so', async () => {
    const server = await scriptedS3(
      except(({ method }) => method === 'DELETE', refusal(403, 'AccessDenied')),
    );
    const store = await server.open();
    const upload = await store.beginUpload('a', { partSizeBytes: PART_BYTES });
    expect((await errorOf(upload.abort())).code).toBe('Denied');
  });
});

describe('listUploads', () => {
  const upload = (key: string, id: string) =>
    `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>2026-11-21T10:00:00.000Z</Initiated></Upload>`;
  const page = (
    uploads: readonly string[],
    next?: readonly [key: string, id: string],
    headers = {},
  ): Reply => {
    const cut = next === undefined ? 'false' : 'true';
    const [key = '', id = ''] = next ?? [];
    return {
      headers,
      body: `<ListMultipartUploadsResult><IsTruncated>${cut}</IsTruncated><NextKeyMarker>${key}</NextKeyMarker><NextUploadIdMarker>${id}</NextUploadIdMarker>${uploads.join('')}</ListMultipartUploadsResult>`,
    };
  };
  const asked = (requests: readonly { query: URLSearchParams }[]) =>
    requests.map(({ query }) => ['prefix', 'key-marker', 'upload-id-marker'].map((name) => query.get(name)));

  test('goes from page to page, and shows what is an upload of the store', async () => {
    const server = await scriptedS3(
      sequence(
        page([upload('gpt/v/a', 'U1'), upload('gpt/v//b', 'U2')], ['gpt/v/a', 'U1']),
        page([upload('gpt/v/a', 'U3'), upload('gpt/w', 'U4')]),
      ),
    );
    const uploads = await openUploads(await server.open(), 'v');
    expect(uploads.map(({ key }) => key)).toEqual(['v/a', 'v/a']);
    expect(new Set(uploads.map(({ token }) => token)).size).toBe(2);
    expect(uploads[0]).toMatchObject({ beganAtMs: Date.UTC(2026, 10, 21, 10) });
    expect(uploads[0]).not.toHaveProperty('sizeBytes');
    expect(asked(server.requests)).toEqual([
      ['gpt/v', null, null],
      ['gpt/v', 'gpt/v/a', 'U1'],
    ]);
  });

  test('a MinIO takes a prefix for a whole key, so all uploads are requested', async () => {
    const all = page([upload('gpt/v/a', 'U1'), upload('gpt/w/b', 'U2')], undefined, { server: 'MinIO' });
    const server = await scriptedS3(() => all);
    const uploads = await openUploads(await server.open(), 'v/');
    expect(uploads.map(({ key }) => key)).toEqual(['v/a']);
    expect(asked(server.requests)).toEqual([
      ['gpt/v/', null, null],
      [null, null, null],
    ]);
  });

  test.each<[string, Reply, string]>([
    ['a page that is its own next one', page([], ['gpt/a', 'U1']), 'Unexpected'],
    ['a page that tells no next one', page([], ['', '']), 'Unexpected'],
    ['a page that is cut off', { body: '<ListMultipartUploadsResult><Upload>' }, 'Unavailable'],
    ['AccessDenied', refusal(403, 'AccessDenied'), 'Denied'],
    ['a store that has no such list', refusal(501, 'NotImplemented'), 'Unsupported'],
  ])('%s', async (_name, reply, code) => {
    const server = await scriptedS3(() => reply);
    expect((await errorOf(openUploads(await server.open()))).code).toBe(code);
  });

  test('an upload that it showed lists its parts and aborts; nothing is added to it', async () => {
    const server = await scriptedS3((request, index) =>
      request.method === 'GET' && request.query.has('uploads')
        ? page([upload('gpt/a', 'UPLOAD-1')])
        : uploadGoesWell(request, index),
    );
    const store = await server.open();
    const [shown] = await openUploads(store);
    const resumed = await store.resumeUpload(shown?.token ?? '');
    expect([resumed.key, resumed.partSizeBytes]).toEqual(['a', 0]);
    for (const call of [
      resumed.putPart(0, new Uint8Array(0), { crc32c: 0 }),
      resumed.complete([], { sizeBytes: 0, crc32c: 0 }),
    ])
      expect(await errorOf(call)).toMatchObject({
        code: 'InvalidArgument',
        message: expect.stringContaining('does not show the size of its parts'),
      });
    await resumed.abort();
    expect(server.requests.map(({ method }) => method)).toEqual(['GET', 'GET', 'DELETE']);
  });
});

describe('a token', () => {
  const isListParts: typeof isBegin = ({ method, query }) => method === 'GET' && query.has('uploadId');
  const parts: Reply = {
    body: `<ListPartsResult><IsTruncated>false</IsTruncated><Part><PartNumber>1</PartNumber><ETag>"part-1"</ETag><Size>10</Size><ChecksumCRC32C>AAAAAg==</ChecksumCRC32C></Part></ListPartsResult>`,
  };

  test('resumes the upload in another store, with the kind of checksum it was begun with', async () => {
    const server = await scriptedS3(except(isListParts, parts));
    const first = await server.open();
    const { token } = await first.beginUpload('a b/ü', { partSizeBytes: PART_BYTES });
    await first.close();
    const second = await server.open({ checksum: 'parts' });
    const upload = await second.resumeUpload(token);
    expect([upload.key, upload.partSizeBytes, upload.token]).toEqual(['a b/ü', PART_BYTES, token]);
    const found = await upload.listParts();
    expect(found).toEqual([{ index: 0, sizeBytes: 10, crc32c: 2, etag: 'part-1' }]);
    await upload.complete(found, { sizeBytes: 10, crc32c: 3 });
    expect(server.requests.at(-1)?.headers['x-amz-checksum-type']).toBe('FULL_OBJECT');
    expect(server.requests.at(-1)?.query.get('uploadId')).toBe('UPLOAD-1');
  });

  test.each<[string, string, number]>([
    ['is its own next one', '<NextPartNumberMarker>1</NextPartNumberMarker>', 2],
    ['tells no next one', '', 1],
  ])('parts are listed up to a page that %s', async (_name, next, pages) => {
    const cut: Reply = { body: `<ListPartsResult><IsTruncated>true</IsTruncated>${next}</ListPartsResult>` };
    const server = await scriptedS3(except(isListParts, cut));
    const store = await server.open();
    const upload = await store.beginUpload('a', { partSizeBytes: PART_BYTES });
    // As with objects: it may be a page that was changed on its way.
    expect(await errorOf(upload.listParts())).toMatchObject({ code: 'Unavailable', status: 'temporary' });
    expect(server.requests.filter(isListParts)).toHaveLength(pages);
  });

  test.each<[string, typeof isBegin, string]>([
    ['the id of an upload', isBegin, '<InitiateMultipartUploadResult><UploadId>U1</UploadId>'],
    ['a list of parts', isListParts, '<ListPartsResult><IsTruncated>false</IsTruncated><Part>'],
  ])('%s that is cut off is a broken answer', async (_name, matches, body) => {
    const store = await (await scriptedS3(except(matches, { body }))).open();
    const list = async () => (await store.beginUpload('a', { partSizeBytes: PART_BYTES })).listParts();
    expect(await errorOf(list())).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });

  test('the answer to a completion that is cut off says nothing of its outcome, and may be asked for again', async () => {
    const store = await (
      await scriptedS3(except(isComplete, { body: '<CompleteMultipartUploadResult><ETag>"w' }))
    ).open();
    const upload = await store.beginUpload('a', { partSizeBytes: PART_BYTES });
    const part = await upload.putPart(0, new Uint8Array(10), { crc32c: 2 });
    const call = upload.complete([part], { sizeBytes: 10, crc32c: 2 });
    expect(await errorOf(call)).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });

  test('a token of an upload that is gone is NotFound', async () => {
    const server = await scriptedS3(except(isListParts, refusal(404, 'NoSuchUpload')));
    const store = await server.open();
    const { token } = await store.beginUpload('a', { partSizeBytes: PART_BYTES });
    expect((await errorOf(store.resumeUpload(token))).code).toBe('NotFound');
  });

  const tokenOf = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const GOOD = { key: 'a', uploadId: 'UPLOAD-1', partSizeBytes: PART_BYTES, checksum: 'full' };

  test.each<[string, string]>([
    ['nothing', ''],
    ['no base64', '%%%'],
    ['no JSON', Buffer.from('{').toString('base64url')],
    ['null', tokenOf(null)],
    ['a list', tokenOf([GOOD])],
    ['no key', tokenOf({ ...GOOD, key: undefined })],
    ['a key outside the grammar', tokenOf({ ...GOOD, key: '../other' })],
    ['no upload', tokenOf({ ...GOOD, uploadId: '' })],
    ['no part size', tokenOf({ ...GOOD, partSizeBytes: '5' })],
    ['a part size out of its limits', tokenOf({ ...GOOD, partSizeBytes: 1 })],
    ['a part size that is no whole number', tokenOf({ ...GOOD, partSizeBytes: PART_BYTES + 0.5 })],
    ['an unknown kind of checksum', tokenOf({ ...GOOD, checksum: 'md5' })],
  ])('%s is InvalidArgument, and nothing is sent', async (_name, token) => {
    const server = await scriptedS3(uploadGoesWell);
    const store = await server.open();
    const error = await errorOf(store.resumeUpload(token));
    expect(error.code).toBe('InvalidArgument');
    expect(error.message).not.toContain('UPLOAD-1');
    expect(server.requests).toHaveLength(0);
  });
});

test('an answer that begins an upload without naming it is refused', async () => {
  const server = await scriptedS3(() => ({ body: '<InitiateMultipartUploadResult/>' }));
  const store = await server.open();
  expect((await errorOf(store.beginUpload('a', { partSizeBytes: PART_BYTES }))).code).toBe('InvalidConfig');
});
