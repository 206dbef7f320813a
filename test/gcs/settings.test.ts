/** How the settings of a URI change each request. */

import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32c } from '@holdfast/core';
import type { ObjectStore } from '@holdfast/core/contract';
import { describe, expect, onTestFinished, test } from 'vitest';
import { allPages, errorOf, type SeenRequest } from '../scripted/scripted-server.ts';
import { makeCertificates } from '../servers/certificates.ts';
import { partsOf } from './fake-gcs.ts';
import {
  isBegin,
  isComplete,
  isCompose,
  isInsert,
  isList,
  isMetadata,
  isPart,
  isRead,
  type ScriptedGcs,
  scriptedGcs,
} from './scripted-gcs.ts';

const PART_BYTES = 5 * 1024 * 1024;
const BYTES = Buffer.from('abc');
const KEY = createHash('sha256').update('key of a customer').digest('base64');
const KEY_ENV = { HOLDFAST_GCS_CUSTOMER_KEY: KEY };
const KEY_HASH = createHash('sha256').update(KEY, 'base64').digest('base64');
const KMS = 'projects/p/locations/eu/keyRings/r/cryptoKeys/k';

/** Makes every call of a store. */
async function doAll(store: ObjectStore): Promise<void> {
  await store.create('a', BYTES, { crc32c: crc32c(BYTES) });
  await store.head('a');
  await store.get('a', { maxBytes: 10 });
  await store.readInto('a', 0, new Uint8Array(3));
  await allPages(store);
  const upload = await store.beginUpload('b', { partSizeBytes: PART_BYTES });
  const part = await upload.putPart(0, BYTES, { crc32c: crc32c(BYTES) });
  await upload.listParts();
  await upload.complete([part], { sizeBytes: 3, crc32c: crc32c(BYTES) });
  await store.copyFrom?.(store, 'a', 'c', { sizeBytes: 3 });
  await store.deleteMany(['a']);
}

async function requestsWith(
  settings: Record<string, string>,
  env: Record<string, string> = {},
): Promise<ScriptedGcs> {
  const server = await scriptedGcs();
  await doAll(await server.open(settings, env));
  return server;
}

const find = ({ requests }: ScriptedGcs, matches: (request: SeenRequest) => boolean): SeenRequest => {
  const request = requests.find(matches);
  if (request === undefined) throw new Error('no such request was sent');
  return request;
};
const isRewrite = ({ path }: SeenRequest) => path.includes('/rewriteTo/');
const isDelete = ({ method }: SeenRequest) => method === 'DELETE';

describe('userProject', () => {
  test('pays for every request', async () => {
    const server = await requestsWith({ userProject: 'team-1' });
    const paid = server.requests.map(({ headers }) => headers['x-goog-user-project']);
    expect(new Set(paid)).toEqual(new Set(['team-1']));
  });
});

describe('storageClass and kmsKey', () => {
  const SETTINGS = { storageClass: 'NEARLINE', kmsKey: KMS };

  test('are told of every new object, and of nothing else', async () => {
    const server = await requestsWith(SETTINGS);
    const insert = find(server, isInsert);
    expect(partsOf(insert).metadata).toMatchObject({ storageClass: 'NEARLINE' });
    expect(insert.query.get('kmsKeyName')).toBe(KMS);
    expect(find(server, isBegin).headers).toMatchObject({
      'x-goog-storage-class': 'NEARLINE',
      'x-goog-encryption-kms-key-name': KMS,
    });
    expect(find(server, isRewrite).query.get('destinationKmsKeyName')).toBe(KMS);
    expect(find(server, isRewrite).body.toString()).toContain('"storageClass":"NEARLINE"');
    for (const matches of [isMetadata, isRead, isList, isPart, isComplete, isDelete]) {
      const { target, headers } = find(server, matches);
      expect(target).not.toContain('kms');
      expect(Object.keys(headers).filter((name) => /kms|storage-class/.test(name))).toEqual([]);
    }
  });

  test('also where the store puts it together', async () => {
    const server = await requestsWith({ ...SETTINGS, uploads: 'compose' });
    const compose = find(server, isCompose);
    expect(compose.query.get('kmsKeyName')).toBe(KMS);
    expect(compose.body.toString()).toContain('"storageClass":"NEARLINE"');
  });
});

describe("a customer's key", () => {
  const hashOf = ({ headers }: SeenRequest) => headers['x-goog-encryption-key-sha256'];

  test('goes with every request that touches bytes, and never with those that list or delete', async () => {
    const server = await requestsWith({}, KEY_ENV);
    for (const matches of [isInsert, isMetadata, isRead, isBegin, isPart, isComplete, isRewrite]) {
      expect(find(server, matches).headers).toMatchObject({
        'x-goog-encryption-algorithm': 'AES256',
        'x-goog-encryption-key': KEY,
        'x-goog-encryption-key-sha256': KEY_HASH,
      });
    }
    for (const matches of [isList, isDelete]) expect(hashOf(find(server, matches))).toBeUndefined();
    expect(find(server, isRewrite).headers['x-goog-copy-source-encryption-key-sha256']).toBe(KEY_HASH);
  });

  test('goes with parts that are objects, and with what puts them together', async () => {
    const server = await requestsWith({ uploads: 'compose' }, KEY_ENV);
    expect(hashOf(find(server, isCompose))).toBe(KEY_HASH);
    expect(server.requests.filter(isInsert).map(hashOf)).toEqual([KEY_HASH, KEY_HASH, KEY_HASH]);
  });

  test.each<[string, Record<string, string>, Record<string, string>]>([
    ['another key', KEY_ENV, { HOLDFAST_GCS_CUSTOMER_KEY: Buffer.alloc(32, 1).toString('base64') }],
    ['no key', KEY_ENV, {}],
    ['a key, and it was written with none', {}, KEY_ENV],
  ])('read with %s: InvalidConfig, in words of ours, and no key is told', async (_name, written, read) => {
    const server = await scriptedGcs();
    await (await server.open({}, written)).create('a', BYTES);
    const error = await errorOf((await server.open({}, read)).get('a', { maxBytes: 10 }));
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toContain('it was written with a HOLDFAST_GCS_CUSTOMER_KEY that differs');
    expect(JSON.stringify([error.message, error.context])).not.toContain(KEY);
  });
});

describe('endpoint', () => {
  test('its path is kept before every request', async () => {
    const server = await scriptedGcs((request, fake) =>
      request.path.startsWith('/base/') ? fake.answer({ ...request, path: request.path.slice(5) }) : 'reset',
    );
    await doAll(await server.open({ endpoint: `${server.endpoint}/base/` }));
    expect(server.fake.objects.size).toBe(2);
  });

  test('no server listens there: Unavailable', async () => {
    const server = await scriptedGcs();
    // No process listens on port 1.
    const store = await server.open({ endpoint: 'http://127.0.0.1:1' });
    expect(await errorOf(store.head('a'))).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });

  test('a name that does not exist: Unavailable, with the name', async () => {
    const store = await (await scriptedGcs()).open({ endpoint: 'http://gcs.invalid' });
    const error = await errorOf(store.head('a'));
    expect(error.code).toBe('Unavailable');
    expect(error.message).toContain('gcs.invalid');
  });

  test('https to a server without TLS, and http to one with TLS', async () => {
    const server = await scriptedGcs();
    const endpoint = server.endpoint.replace('http:', 'https:');
    expect((await errorOf((await server.open({ endpoint })).head('a'))).code).toBe('InvalidConfig');
  });

  test('a certificate that is not trusted is InvalidConfig; with ca= it is', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'holdfast-gcs-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    const { caPath, certificatePath, keyPath } = await makeCertificates(directory);
    const tls = { cert: await readFile(certificatePath), key: await readFile(keyPath) };
    const server = await scriptedGcs(undefined, { tls });
    const error = await errorOf((await server.open()).head('a'));
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toContain('the certificate of the server is not trusted');
    await doAll(await server.open({ ca: caPath }, KEY_ENV));
  });
});

test('every request names the object by its name, whatever is in it', async () => {
  const server = await scriptedGcs();
  const store = await server.open();
  const key = 'a b/ü+%?#&=/compose';
  await store.create(key, BYTES);
  expect(Buffer.from((await store.get(key, { maxBytes: 10 })).bytes)).toEqual(BYTES);
  const upload = await store.beginUpload(`${key}2`, { partSizeBytes: PART_BYTES });
  const part = await upload.putPart(0, BYTES, { crc32c: crc32c(BYTES) });
  await upload.complete([part], { sizeBytes: 3, crc32c: crc32c(BYTES) });
  expect([...server.fake.objects.keys()]).toEqual([`gpt/${key}`, `gpt/${key}2`]);
});
