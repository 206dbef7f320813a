/** How settings and credentials change requests, and which of them no output may contain. */

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import {
  BlobSASPermissions,
  generateBlobSASQueryParameters,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import type { ObjectStore } from '@holdfast/core/contract';
import { crc32c } from '@holdfast/testkit';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { errorOf, type Reply, type SeenRequest } from '../scripted/scripted-server.ts';
import { makeCertificates } from '../servers/certificates.ts';
import {
  ACCOUNT,
  azureInMemory,
  KEYS,
  refusal,
  type ScriptedAzure,
  scriptedAzure,
} from './scripted-azure.ts';

const PART = 1024 * 1024;
const BYTES = Buffer.from('abc');
const SAS = 'sv=2024-11-04&sp=racwdl&sr=c&se=2099-01-01T00:00:00Z&sig=canary%2Bcanary%2Fcanary%3D';
const CUSTOMER_KEY = Buffer.alloc(32, 'canary').toString('base64');

/** Causes every kind of request that the engine makes. */
async function useAll(store: ObjectStore): Promise<void> {
  await store.create('a', BYTES, { crc32c: crc32c(BYTES) });
  await store.head('a');
  await store.get('a', { maxBytes: 9 });
  await store.readInto('a', 0, new Uint8Array(3));
  const upload = await store.beginUpload('b', { partSizeBytes: PART });
  const receipt = await upload.putPart(0, BYTES, { crc32c: crc32c(BYTES) });
  await (await store.resumeUpload(upload.token)).listParts();
  await upload.complete([receipt], { sizeBytes: 3, crc32c: crc32c(BYTES) });
  await (await store.beginUpload('c', { partSizeBytes: PART })).abort();
  for await (const _ of store.list('', { startAfter: '0' }));
  await store.copyFrom?.(store, 'a', 'd', { sizeBytes: 3 });
  await store.inspect?.();
  await store.deleteMany(['a', 'b', 'd']);
}

function kindOf({ method, path, query }: SeenRequest): string {
  const what = query.get('comp') ?? query.get('restype') ?? (path.endsWith('/d') ? 'copy' : 'blob');
  return `${method} ${what}`;
}

describe('settings', () => {
  async function requestsWith(
    settings: Record<string, string>,
    env: Record<string, string> = {},
  ): Promise<ScriptedAzure> {
    const server = await azureInMemory();
    await useAll(await server.open(settings, { ...KEYS, ...env }));
    return server;
  }

  function kindsWith({ requests }: ScriptedAzure, header: string): string[] {
    return [...new Set(requests.filter(({ headers }) => header in headers).map(kindOf))].sort();
  }

  test('tier: with what makes an object', async () => {
    const server = await requestsWith({ tier: 'Cool' });
    expect(kindsWith(server, 'x-ms-access-tier')).toEqual(['PUT blob', 'PUT blocklist', 'PUT copy']);
    expect(server.requests[0]?.headers['x-ms-access-tier']).toBe('Cool');
  });

  test('encryptionScope: with what brings bytes, and what makes an object of them', async () => {
    const server = await requestsWith({ encryptionScope: 'scope-1' });
    expect(kindsWith(server, 'x-ms-encryption-scope')).toEqual([
      'PUT blob',
      'PUT block',
      'PUT blocklist',
      'PUT copy',
    ]);
  });

  test('a key of the customer: with every request that touches bytes, and no other; nothing is copied', async () => {
    const server = await requestsWith({}, { HOLDFAST_AZURE_CUSTOMER_KEY: CUSTOMER_KEY });
    const kinds = kindsWith(server, 'x-ms-encryption-key');
    expect(kinds).toEqual(['GET blob', 'HEAD blob', 'PUT blob', 'PUT block', 'PUT blocklist']);
    expect(kindsWith(server, 'x-ms-encryption-key-sha256')).toEqual(kinds);
    expect(kindsWith(server, 'x-ms-encryption-algorithm')).toEqual(kinds);
    expect(server.requests.map(kindOf)).not.toContain('PUT copy');
  });

  test('the endpoint may have a path, as that of an emulator', async () => {
    const server = await azureInMemory({ basePath: '/scripted' });
    await useAll(await server.open({ endpoint: `${server.endpoint}/scripted/` }));
    expect(server.requests.filter(({ path }) => !path.startsWith('/scripted/'))).toEqual([]);
  });

  test('ca: over TLS with an authority of its own', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'holdfast-azure-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    const { caPath, certificatePath, keyPath } = await makeCertificates(directory);
    const [cert, key] = await Promise.all([readFile(certificatePath), readFile(keyPath)]);
    const server = await azureInMemory({}, undefined, { tls: { cert, key } });
    await useAll(await server.open({ ca: caPath }));
    const untrusting = await server.open();
    expect(await errorOf(untrusting.head('a'))).toMatchObject({
      code: 'InvalidConfig',
      message: expect.stringContaining('the certificate of the server is not trusted'),
    });
  });

  test('signatures are those of the SDK, whatever the names are', async () => {
    const server = await azureInMemory();
    const store = await server.open({ contentMd5: 'true', tier: 'Cold', encryptionScope: 'scope-1' });
    for (const key of ['a b/c+d', "it's (a) *!", 'ü/模型/🧮', 'a%20b?c#d', 'back\\slash']) {
      await store.create(key, BYTES, { crc32c: 1 });
      expect((await store.get(key, { maxBytes: 9 })).key).toBe(key);
      for await (const _ of store.list(key.slice(0, 3), { startAfter: key }));
    }
  });
});

describe('a SAS', () => {
  const env = { AZURE_STORAGE_SAS_TOKEN: SAS };

  test('goes with each request as it is, and nothing is signed', async () => {
    const server = await azureInMemory();
    await useAll(await server.open({}, env));
    for (const { target, headers } of server.requests) {
      expect(target).toContain(SAS);
      expect(headers).not.toHaveProperty('authorization');
    }
  });

  test('lets the store fetch what it copies', async () => {
    const server = await azureInMemory();
    const store = await server.open({}, env);
    await store.create('a', BYTES);
    expect(await store.copyFrom?.(store, 'a', 'b', { sizeBytes: 3 })).toMatchObject({ key: 'b' });
    expect(server.requests.at(-1)?.headers['x-ms-copy-source']).toBe(`${server.endpoint}/runs/gpt/a?${SAS}`);
  });

  const replies: readonly [string, Reply][] = [
    ['a refusal', refusal(403, 'AuthorizationPermissionMismatch')],
    [
      'a refusal that tells what was signed',
      refusal(403, 'AuthenticationFailed', {
        xml: `<AuthenticationErrorDetail>Signature did not match. ${SAS}</AuthenticationErrorDetail>`,
      }),
    ],
    ['a missing object', refusal(404, 'BlobNotFound')],
    ['a page of somebody else', { status: 200, body: '<html>welcome</html>' }],
    ['a redirect', { status: 302, headers: { location: `https://elsewhere.example/?${SAS}` } }],
    ['an error of the server', refusal(500, 'InternalError')],
    ['a reset', 'reset'],
    ['half an answer', { raw: 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc' }],
    ['no HTTP', { raw: 'SSH-2.0-OpenSSH_9.2\r\n' }],
  ];

  test.each(replies)('is in no error, cause or URI, whatever is answered: %s', async (_name, reply) => {
    const server = await scriptedAzure(() => reply);
    const store = await server.open({}, { ...env, HOLDFAST_AZURE_CUSTOMER_KEY: CUSTOMER_KEY });
    const calls = [
      () => store.create('a', BYTES),
      () => store.head('a'),
      () => store.get('a', { maxBytes: 9 }),
      () => store.readInto('a', 0, new Uint8Array(3)),
      () => store.beginUpload('b', { partSizeBytes: PART }),
      async () => {
        for await (const _ of store.list(''));
      },
      async () => {
        const [result] = await store.deleteMany(['a']);
        throw result?.error ?? new Error('deleted');
      },
      async () => store.inspect?.(),
    ];
    for (const call of calls) {
      const thrown = await call().then(
        (value) => value,
        (error: unknown) => error,
      );
      const seen = inspect(thrown, { depth: 20, showHidden: true });
      expect(seen).not.toContain('canary');
      expect(seen).not.toContain(CUSTOMER_KEY);
    }
    expect(inspect(store, { depth: 0 }) + store.uri).not.toContain('canary');
  });

  test('is in no error if there is no listener', async () => {
    const server = await scriptedAzure(() => 'reset');
    const store = await server.open({ endpoint: 'http://127.0.0.1:1' }, env);
    const error = await errorOf(store.head('a'));
    expect(error.code).toBe('Unavailable');
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('canary');
  });
});

describe('a key of the account', () => {
  test('is in no error, and neither is a signature', async () => {
    const server = await scriptedAzure(({ headers }) =>
      refusal(403, 'AuthenticationFailed', {
        xml: `<AuthenticationErrorDetail>The MAC signature found in the HTTP request '${headers['authorization']}' is not the same</AuthenticationErrorDetail>`,
      }),
    );
    const store = await server.open();
    const seen = inspect(await errorOf(store.head('a')), { depth: 20, showHidden: true });
    expect(seen).not.toContain(ACCOUNT.key);
    expect(seen).not.toContain('SharedKey');
  });

  test('signs for a copy what the SDK would sign', async () => {
    vi.useFakeTimers({ now: Date.UTC(2026, 10, 21, 10), toFake: ['Date'] });
    try {
      const server = await azureInMemory();
      const store = await server.open();
      await store.create('a ü', BYTES);
      await store.copyFrom?.(store, 'a ü', 'b', { sizeBytes: 3 });
      const url = new URL(server.requests.at(-1)?.headers['x-ms-copy-source'] ?? '');
      expect(url.pathname).toBe('/runs/gpt/a%20%C3%BC');
      const expected = generateBlobSASQueryParameters(
        {
          containerName: 'runs',
          blobName: 'gpt/a ü',
          permissions: BlobSASPermissions.parse('r'),
          startsOn: new Date(Date.UTC(2026, 10, 21, 9, 45)),
          expiresOn: new Date(Date.UTC(2026, 10, 22, 10)),
          version: '2021-12-02',
        },
        new StorageSharedKeyCredential(ACCOUNT.account, ACCOUNT.key),
      );
      const sorted = (query: URLSearchParams) => [...query].sort(([a], [b]) => (a < b ? -1 : 1));
      expect(sorted(url.searchParams)).toEqual(sorted(new URLSearchParams(expected.toString())));
    } finally {
      vi.useRealTimers();
    }
  });
});
