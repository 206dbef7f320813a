import type { Bucket } from '@google-cloud/storage';
import { crc32c } from '@holdfast/core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { gcsClient } from '../../servers/gcs-access.ts';
import { MIB, ROTATION_BYTES } from '../s3/shapes.ts';
import { contents, startForTest } from './fixture.ts';
import type { DiscardServer } from './process.ts';

let server: DiscardServer;
let bucket: Bucket;

beforeAll(async () => {
  server = await startForTest('gcs');
  bucket = gcsClient(server.endpoint).bucket('bench');
});

afterAll(() => server.close());

const LARGE = { rotationBytes: 3 * ROTATION_BYTES, startBytes: 0, endBytes: 12 * MIB };

test('discarding server, GCS: a resumable upload of the SDK passes its own validation, and so does the download', async () => {
  await bucket.file('large').save(contents(LARGE));
  const [bytes] = await bucket.file('large').download();
  expect(bytes.equals(contents(LARGE))).toBe(true);
  const [some] = await bucket.file('large').download({ start: 7_000_000, end: 7_000_099 });
  expect(some.equals(contents({ ...LARGE, startBytes: 7_000_000, endBytes: 7_000_100 }))).toBe(true);
});

test('discarding server, GCS: an upload in one request is kept, created once if asked, listed and deleted', async () => {
  const options = { resumable: false, preconditionOpts: { ifGenerationMatch: 0 } };
  await bucket.file('small/a b').save(Buffer.from('text'), options);
  const again = bucket.file('small/a b').save(Buffer.from('text'), options);
  await expect(again).rejects.toMatchObject({ code: 412 });
  await bucket.file('small/b').save(Buffer.from('other'), options);
  const page = { prefix: 'small/', maxResults: 1, autoPaginate: false };
  const [first, next] = await bucket.getFiles(page);
  const [second] = await bucket.getFiles({ ...page, ...next });
  expect([...first, ...second].map(({ name }) => name)).toEqual(['small/a b', 'small/b']);
  await bucket.file('small/a b').delete();
  await expect(bucket.file('small/a b').download()).rejects.toMatchObject({ code: 404 });
});

test('discarding server, GCS: parts of the XML API become one object with the checksum of all of it', async () => {
  const url = `${server.endpoint}/bench/xml/large`;
  const begun = await (await fetch(`${url}?uploads`, { method: 'POST' })).text();
  const id = /<UploadId>(.*)<\/UploadId>/.exec(begun)?.[1] ?? '';
  for (const number of [2, 1]) {
    const range = { ...LARGE, startBytes: (number - 1) * 6 * MIB, endBytes: number * 6 * MIB };
    const put = await fetch(`${url}?partNumber=${number}&uploadId=${id}`, {
      method: 'PUT',
      body: new Uint8Array(contents(range)),
    });
    expect(put.headers.get('x-goog-hash')).toMatch(/^crc32c=/);
  }
  const done = await fetch(`${url}?uploadId=${id}`, {
    method: 'POST',
    body: '<CompleteMultipartUpload></CompleteMultipartUpload>',
  });
  const expected = Buffer.alloc(4);
  expected.writeUInt32BE(crc32c(contents(LARGE)));
  expect(done.headers.get('x-goog-hash')).toBe(`crc32c=${expected.toString('base64')}`);
  const head = await fetch(`${server.endpoint}/storage/v1/b/bench/o/${encodeURIComponent('xml/large')}`);
  expect(await head.json()).toMatchObject({ size: String(12 * MIB), crc32c: expected.toString('base64') });
});
