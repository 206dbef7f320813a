/** Against fake-gcs-server and Google's own library: each reads what the other writes. */

import { Storage } from '@google-cloud/storage';
import { crc32c } from '@holdfast/core';
import { openGcsStore } from '@holdfast/store-gcs';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { allPages } from '../scripted/scripted-server.ts';
import { describeOnFakeGcs } from '../servers/describe-on-gcs.ts';
import type { TestBucket } from '../servers/test-bucket.ts';

const BYTES = Buffer.from('what one writes, the other reads');

describeOnFakeGcs('GCS on fake-gcs-server', {}, (server) => {
  let place: TestBucket;
  beforeAll(async () => {
    place = await server().newBucket();
  });

  async function open(uri = place.uri, env: Record<string, string> = {}) {
    const store = await openGcsStore(uri, env);
    onTestFinished(() => store.close());
    return store;
  }
  const library = () =>
    new Storage({ apiEndpoint: server().endpoint, projectId: 'holdfast-test' }).bucket(place.bucket);

  test("Google's library reads what was written, and its checksum is right", async () => {
    const store = await open();
    const info = await store.create('of-ours', BYTES, { crc32c: crc32c(BYTES) });
    const file = library().file('run/of-ours');
    const [bytes] = await file.download({ validation: 'crc32c' });
    expect(bytes).toEqual(BYTES);
    const [metadata] = await file.getMetadata();
    expect(metadata).toMatchObject({ contentType: 'application/octet-stream', generation: info.etag });
  });

  test("what Google's library wrote is read, and no more than once", async () => {
    const store = await open();
    await library().file('run/of-theirs').save(BYTES, { resumable: false });
    expect(Buffer.from((await store.get('of-theirs', { maxBytes: 100 })).bytes)).toEqual(BYTES);
    await expect(store.create('of-theirs', BYTES)).rejects.toMatchObject({ code: 'AlreadyExists' });
  });

  test('STORAGE_EMULATOR_HOST is enough to get there', async () => {
    const host = server().endpoint.replace('http://', '');
    const store = await open(`gs://${place.bucket}/by-host`, { STORAGE_EMULATOR_HOST: host });
    await store.create('a', BYTES);
    expect((await allPages(store))[0]?.objects.map(({ key }) => key)).toEqual(['a']);
  });

  test('an upload that is composed leaves nothing behind, seen from outside', async () => {
    const store = await open(place.uri.replace('/run?', '/composed?'));
    const upload = await store.beginUpload('large', { partSizeBytes: 1 });
    const parts = await Promise.all(
      Array.from(BYTES, (_, index) => {
        const part = BYTES.subarray(index, index + 1);
        return upload.putPart(index, part, { crc32c: crc32c(part) });
      }),
    );
    const during = await library().getFiles({ prefix: 'composed/' });
    expect(during[0]).toHaveLength(BYTES.byteLength + 1);
    await upload.complete(parts, { sizeBytes: BYTES.byteLength, crc32c: crc32c(BYTES) });
    const [after] = await library().getFiles({ prefix: 'composed/' });
    expect(after.map(({ name }) => name)).toEqual(['composed/large']);
    expect((await after[0]?.download({ validation: 'crc32c' }))?.[0]).toEqual(BYTES);
  });

  test('a copy between two prefixes, by the server', async () => {
    const source = await open();
    await source.create('source', BYTES);
    const target = await open(place.uri.replace('/run?', '/copies?'));
    const copied = await target.copyFrom?.(source, 'source', 'copy', { sizeBytes: BYTES.byteLength });
    expect(copied).toMatchObject({ key: 'copy', sizeBytes: BYTES.byteLength, crc32c: crc32c(BYTES) });
    expect(Buffer.from((await target.get('copy', { maxBytes: 100 })).bytes)).toEqual(BYTES);
  });

  test('says of itself what it can, and a missing bucket is an error', async () => {
    const facts = await (await open()).inspect?.();
    const seen = Object.fromEntries((facts ?? []).map((fact) => [fact.id, fact.seen]));
    expect(seen).toMatchObject({ versioning: 'off', permissions: 'this server does not report it' });
    const missing = await open(place.uri.replace(place.bucket, 'no-such-bucket'));
    await expect(missing.inspect?.()).rejects.toMatchObject({ code: 'NotFound' });
    await expect(missing.create('a', BYTES)).rejects.toMatchObject({ context: { bucket: 'missing' } });
    await expect(allPages(missing)).rejects.toMatchObject({ context: { bucket: 'missing' } });
  });
});
