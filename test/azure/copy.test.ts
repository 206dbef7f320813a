/** Copies that the store makes by itself. */

import { openAzureStore } from '@holdfast/store-azure';
import { openS3Store } from '@holdfast/store-s3';
import { crc32c } from '@holdfast/testkit';
import { describe, expect, onTestFinished, test } from 'vitest';
import { errorOf, type Reply } from '../scripted/scripted-server.ts';
import { describeOnAzure } from '../servers/describe-on-azure.ts';
import { azureInMemory, blob, CREATED, refusal, scriptedAzure } from './scripted-azure.ts';

const BYTES = Buffer.from('some bytes');
const SIZE = { sizeBytes: BYTES.byteLength };
const MIB = 1024 * 1024;

describeOnAzure('copyFrom', (server) => {
  test('copies inside an account, into another container too, and replaces nothing', async () => {
    const [from, to] = [await server().newBucket(), await server().newBucket()];
    const source = await openAzureStore(from.uri, from.env);
    const target = await openAzureStore(to.uri, to.env);
    onTestFinished(async () => {
      await Promise.all([source.close(), target.close()]);
    });
    await source.create('a b/ü?', BYTES, { crc32c: crc32c(BYTES) });
    const copied = await target.copyFrom?.(source, 'a b/ü?', 'copy/1', SIZE);
    // The checksum of the copy is the source's own. The service did not compute one over the copy.
    expect(copied).not.toHaveProperty('crc32c');
    expect(await target.head('copy/1')).toEqual({ ...copied, crc32c: crc32c(BYTES) });
    expect(Buffer.from((await target.get('copy/1', { maxBytes: 100 })).bytes)).toEqual(BYTES);
    const again = target.copyFrom?.(source, 'a b/ü?', 'copy/1', SIZE) as Promise<unknown>;
    expect((await errorOf(again)).code).toBe('AlreadyExists');
    const missing = target.copyFrom?.(source, 'missing', 'copy/2', SIZE) as Promise<unknown>;
    expect(await errorOf(missing)).toMatchObject({ code: 'NotFound', context: { key: 'missing' } });
  });
});

describe('copyFrom', () => {
  test('is one request that makes no blob before it is whole; what is known of the source goes along', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    const { etag } = await store.create('a', BYTES, { crc32c: crc32c(BYTES) });
    const copiedBytes: number[] = [];
    await store.copyFrom?.(store, 'a', 'b', { ...SIZE, onProgress: (bytes) => copiedBytes.push(bytes) });
    expect(copiedBytes).toEqual([BYTES.byteLength]);
    expect(server.requests.at(-1)?.headers).toMatchObject({
      'x-ms-requires-sync': 'true',
      'if-none-match': '*',
      'x-ms-source-if-match': `"${etag}"`,
    });
    const [a, b] = ['gpt/a', 'gpt/b'].map((name) => server.memory.blobs.get(name));
    expect([b?.bytes, b?.metadata]).toEqual([a?.bytes, a?.metadata]);
  });

  test('a large blob: blocks of at most 256 MiB, alike, and then all of them at once', async () => {
    const sizeBytes = 600 * MIB + 1;
    const blockBytes = 200 * MIB + 1;
    const server = await scriptedAzure(({ method, query }) => {
      if (method === 'HEAD')
        return blob('', { 'content-length': String(sizeBytes), 'x-ms-meta-crc32c': 'AAAAAA==' });
      return query.get('comp') === 'block' ? { status: 201 } : CREATED;
    });
    const store = await server.open();
    const copiedBytes: number[] = [];
    const onProgress = (bytes: number) => copiedBytes.push(bytes);
    expect(await store.copyFrom?.(store, 'a', 'b', { sizeBytes, onProgress })).toMatchObject({ sizeBytes });
    const blocks = server.requests.filter(({ query }) => query.get('comp') === 'block');
    const ranges = blocks.map(({ headers }) => headers['x-ms-source-range']);
    expect(new Set(ranges)).toEqual(
      new Set([
        `bytes=0-${blockBytes - 1}`,
        `bytes=${blockBytes}-${2 * blockBytes - 1}`,
        `bytes=${2 * blockBytes}-${sizeBytes - 1}`,
      ]),
    );
    const commit = server.requests.at(-1);
    expect(commit?.headers).toMatchObject({ 'if-none-match': '*', 'x-ms-meta-crc32c': 'AAAAAA==' });
    const inOrder = [...blocks].sort((a, b) => startOf(a.headers) - startOf(b.headers));
    const ids = inOrder.map(({ query }) => query.get('blockid'));
    expect(commit?.body.toString()).toContain(ids.map((id) => `<Uncommitted>${id}</Uncommitted>`).join(''));
    expect(copiedBytes.at(-1)).toBe(sizeBytes);
    expect([...copiedBytes].sort((a, b) => a - b)).toEqual(copiedBytes);
  });

  test.each<[string, Reply]>([
    ['the source may not be fetched', refusal(403, 'CannotVerifyCopySource')],
    ['the server copies nothing', refusal(501, 'APINotImplemented')],
  ])('null, and nothing written, where %s', async (_name, reply) => {
    const server = await azureInMemory({}, ({ headers }, pass) =>
      'x-ms-copy-source' in headers ? reply : pass(),
    );
    const store = await server.open();
    await store.create('a', BYTES);
    expect(await store.copyFrom?.(store, 'a', 'b', SIZE)).toBeNull();
    expect([...server.memory.blobs.keys()]).toEqual(['gpt/a']);
  });

  test('null, and nothing sent, from another kind of store, another account, or with a key of the customer', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    const other = await (await azureInMemory()).open();
    const encrypted = await server.open(
      {},
      {
        AZURE_STORAGE_SAS_TOKEN: 'sig=abc',
        HOLDFAST_AZURE_CUSTOMER_KEY: Buffer.alloc(32).toString('base64'),
      },
    );
    const s3 = await openS3Store('s3://runs', {});
    onTestFinished(() => s3.close());
    for (const source of [other, encrypted, s3])
      expect(await store.copyFrom?.(source, 'a', 'b', SIZE)).toBeNull();
    expect(await encrypted.copyFrom?.(store, 'a', 'b', SIZE)).toBeNull();
    expect(server.requests).toEqual([]);
  });

  test('a source of another size, or replaced meanwhile, is Corrupt', async () => {
    const server = await azureInMemory({}, ({ headers }, pass) =>
      'x-ms-copy-source' in headers ? refusal(412, 'SourceConditionNotMet') : pass(),
    );
    const store = await server.open();
    await store.create('a', BYTES);
    for (const sizeBytes of [BYTES.byteLength, 3]) {
      const copying = store.copyFrom?.(store, 'a', 'b', { sizeBytes }) as Promise<unknown>;
      expect(await errorOf(copying)).toMatchObject({ code: 'Corrupt', context: { key: 'a' } });
    }
  });

  test('a copy that continues in the background does not count as a copy', async () => {
    const server = await azureInMemory({}, ({ headers }, pass) =>
      'x-ms-copy-source' in headers
        ? { status: 202, headers: { ...CREATED.headers, 'x-ms-copy-status': 'pending' } }
        : pass(),
    );
    const store = await server.open();
    await store.create('a', BYTES);
    const copying = store.copyFrom?.(store, 'a', 'b', SIZE) as Promise<unknown>;
    expect((await errorOf(copying)).code).toBe('Unsupported');
  });
});

function startOf(headers: Readonly<Record<string, string>>): number {
  return Number(/^bytes=(\d+)-/.exec(headers['x-ms-source-range'] ?? '')?.[1]);
}
