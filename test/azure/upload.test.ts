/** Uploads in blocks: their requests and their endings. */

import type { ObjectStore, PartReceipt, Upload } from '@holdfast/core/contract';
import { openAzureStore } from '@holdfast/store-azure';
import { crc32c } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { errorOf, openUploads } from '../scripted/scripted-server.ts';
import { azureInMemory, KEYS, refusal, type ScriptedAzure } from './scripted-azure.ts';

const PART = 1024 * 1024;

async function uploadOf(
  store: ObjectStore,
  sizes: readonly number[],
): Promise<[Upload, PartReceipt[], Buffer]> {
  const bytes = Buffer.alloc(
    sizes.reduce((sum, size) => sum + size, 0),
    'holdfast',
  );
  const upload = await store.beginUpload('big', { partSizeBytes: PART });
  const receipts: PartReceipt[] = [];
  for (const [index, size] of sizes.entries()) {
    const part = bytes.subarray(index * PART, index * PART + size);
    receipts.push(await upload.putPart(index, part, { crc32c: crc32c(part) }));
  }
  return [upload, receipts, bytes];
}

function whole(bytes: Buffer) {
  return { sizeBytes: bytes.byteLength, crc32c: crc32c(bytes) };
}

function sent({ requests }: ScriptedAzure): string[] {
  return requests.map(({ method, query }) => `${method} ${query.get('comp')}`);
}

describe('an upload', () => {
  test('is a block that begins it, one for each part, a look at what is there, and the list of them', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    const [upload, receipts, bytes] = await uploadOf(store, [PART, 5]);
    const info = await upload.complete(receipts, whole(bytes));
    expect(sent(server)).toEqual(['PUT block', 'PUT block', 'PUT block', 'GET blocklist', 'PUT blocklist']);
    const names = server.requests.slice(0, 3).map(({ query }) => query.get('blockid') ?? '');
    expect(new Set(names.map((name) => name.length)).size).toBe(1);
    expect(new Set(names).size).toBe(3);
    const commit = server.requests.at(-1);
    expect(commit?.headers).toMatchObject({ 'if-none-match': '*', 'content-type': 'application/xml' });
    expect(commit?.headers['x-ms-meta-crc32c']).toMatch(/^[A-Za-z0-9+/]{6}==$/);
    expect(await store.head('big')).toEqual({ ...info, crc32c: crc32c(bytes) });
    expect(server.memory.blobs.get('gpt/big')?.bytes).toEqual(bytes);
    expect(server.memory.blocks.size).toBe(0);
  });

  test('parts of another upload to the same name do not get in', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    const [first] = await uploadOf(store, [PART]);
    await first.abort();
    const [second, receipts, bytes] = await uploadOf(store, [PART, 7]);
    expect((await second.listParts()).map(({ index }) => index)).toEqual([0, 1]);
    await second.complete(receipts, whole(bytes));
    expect((await errorOf(first.listParts())).code).toBe('NotFound');
  });

  test('a part that comes again with other bytes is another block: each receipt completes with its own', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    const upload = await store.beginUpload('big', { partSizeBytes: PART });
    const [first, second] = [Buffer.from('first'), Buffer.from('other')];
    const receipt = await upload.putPart(0, first, { crc32c: crc32c(first) });
    const late = await upload.putPart(0, second, { crc32c: crc32c(second) });
    const other = await (await server.open()).resumeUpload(upload.token);
    const listed = await other.listParts();
    expect(listed).toHaveLength(1);
    expect([receipt, late]).toContainEqual(listed[0]);
    await other.complete([receipt], whole(first));
    expect(server.memory.blobs.get('gpt/big')?.bytes).toEqual(first);
  });

  test('another process finds the checksums of its parts', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    const [upload, receipts, bytes] = await uploadOf(store, [PART, 7]);
    const other = await (await server.open()).resumeUpload(upload.token);
    expect(await other.listParts()).toEqual(receipts);
    expect(receipts.map((part) => part.crc32c)).toEqual([
      crc32c(bytes.subarray(0, PART)),
      crc32c(bytes.subarray(PART)),
    ]);
  });

  test('an empty last part is not sent', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    const [upload, receipts, bytes] = await uploadOf(store, [PART, 0]);
    await upload.complete(receipts, whole(bytes));
    expect(server.memory.blobs.get('gpt/big')?.bytes.byteLength).toBe(PART);
    expect(sent(server).filter((what) => what === 'PUT block')).toHaveLength(2);
  });

  test('what the store lost is missed before it is committed', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    const [upload, receipts, bytes] = await uploadOf(store, [PART, 7]);
    const blocks = server.memory.blocks.get('gpt/big') as Map<string, Buffer>;
    const id = Buffer.from(receipts[1]?.etag ?? '').toString('base64');
    blocks.set(id, Buffer.from('short'));
    expect(await errorOf(upload.complete(receipts, whole(bytes)))).toMatchObject({ code: 'Corrupt' });
    blocks.delete(id);
    expect((await errorOf(upload.complete(receipts, whole(bytes)))).message).toContain('part 1 is missing');
    expect(server.memory.blobs.size).toBe(0);
  });

  test('whose blocks have expired is NotFound', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    const [upload, receipts, bytes] = await uploadOf(store, [PART]);
    (server.memory.blocks as Map<string, unknown>).clear();
    for (const call of [
      () => upload.complete(receipts, whole(bytes)),
      () => upload.listParts(),
      () => store.resumeUpload(upload.token),
    ])
      expect(await errorOf(call())).toMatchObject({ code: 'NotFound' });
    await upload.abort();
  });

  test('whose blocks expire between the look and the list is NotFound', async () => {
    const server = await azureInMemory({}, ({ method, query }, pass) =>
      method === 'PUT' && query.get('comp') === 'blocklist' ? refusal(400, 'InvalidBlockList') : pass(),
    );
    const store = await server.open();
    const [upload, receipts, bytes] = await uploadOf(store, [PART]);
    expect((await errorOf(upload.complete(receipts, whole(bytes)))).code).toBe('NotFound');
  });

  test.each(['reset', 'error'] as const)(
    'complete: applied, and then a %s: the next try is NotFound',
    async (how) => {
      let isFirst = true;
      const server = await azureInMemory({}, ({ method, query }, pass) => {
        const answer = pass();
        if (method !== 'PUT' || query.get('comp') !== 'blocklist' || !isFirst) return answer;
        isFirst = false;
        return how === 'reset' ? 'reset' : refusal(500, 'OperationTimedOut');
      });
      const store = await server.open();
      const [upload, receipts, bytes] = await uploadOf(store, [PART, 7]);
      expect((await errorOf(upload.complete(receipts, whole(bytes)))).code).toBe('Unavailable');
      expect((await errorOf(upload.complete(receipts, whole(bytes)))).code).toBe('NotFound');
      expect(await store.head('big')).toMatchObject({ sizeBytes: PART + 7 });
    },
  );

  test('a receipt of another upload is refused', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    const [upload, receipts, bytes] = await uploadOf(store, [PART]);
    const forged = receipts.map((receipt) => ({ ...receipt, etag: 'forged' }));
    expect((await errorOf(upload.complete(forged, whole(bytes)))).code).toBe('InvalidArgument');
  });

  test('is listed with those of its name, as long as it has blocks and was not aborted', async () => {
    const server = await azureInMemory({ pageSize: 1 });
    const store = await server.open();
    const [first] = await uploadOf(store, [PART]);
    const second = await store.beginUpload('big', { partSizeBytes: PART });
    await store.create('empty', new Uint8Array(0));
    await store.create('more', Buffer.from('x'));
    await store.beginUpload('more/a', { partSizeBytes: PART });
    const other = await openAzureStore(server.uri().replace('/gpt?', '/elsewhere?'), KEYS);
    await other.beginUpload('big', { partSizeBytes: PART });
    await other.close();
    const shown = await openUploads(store);
    expect(shown.map(({ key, sizeBytes }) => [key, sizeBytes])).toEqual([
      ['big', PART],
      ['big', 0],
      ['more/a', 0],
    ]);
    expect(Math.abs(Date.now() - (shown[0]?.beganAtMs ?? 0))).toBeLessThan(60_000);
    const resumed = await store.resumeUpload(shown[0]?.token ?? '');
    expect(await resumed.listParts()).toEqual(await first.listParts());
    expect((await errorOf(resumed.putPart(1, new Uint8Array(1), { crc32c: 0 }))).code).toBe(
      'InvalidArgument',
    );
    await resumed.abort();
    expect((await openUploads(store, 'b')).map(({ sizeBytes }) => sizeBytes)).toEqual([0]);
    await second.abort();
    expect(await openUploads(store, 'b')).toEqual([]);
  });

  test('a list of blocks that is cut off is a broken answer, and no upload without parts', async () => {
    let isCut = false;
    const server = await azureInMemory({}, ({ method, query }, pass) => {
      const answer = pass();
      if (!isCut || method !== 'GET' || query.get('comp') !== 'blocklist') return answer;
      return { ...answer, body: String(answer.body).slice(0, -12) };
    });
    const store = await server.open();
    const [upload] = await uploadOf(store, [PART]);
    isCut = true;
    for (const call of [upload.listParts(), openUploads(store)])
      expect(await errorOf(call)).toMatchObject({ code: 'Unavailable', status: 'temporary' });
    isCut = false;
    expect(await upload.listParts()).toHaveLength(1);
  });

  test('a listing that is refused says so', async () => {
    const server = await azureInMemory({}, ({ query }, pass) =>
      query.get('comp') === 'blocklist' ? refusal(403, 'AuthorizationPermissionMismatch') : pass(),
    );
    const store = await server.open();
    await store.beginUpload('a', { partSizeBytes: PART });
    expect((await errorOf(openUploads(store))).code).toBe('Denied');
  });

  test.each([
    '',
    'x',
    'e30',
    Buffer.from('{"key":"a","uploadId":"../","partSizeBytes":1048576}').toString('base64url'),
  ])('an invalid token is InvalidArgument: %j', async (token) => {
    const server = await azureInMemory();
    const store = await server.open();
    expect((await errorOf(store.resumeUpload(token))).code).toBe('InvalidArgument');
    expect(server.requests).toHaveLength(0);
  });

  test('with contentMd5 each body goes with its MD5, and a wrong one is Corrupt', async () => {
    const server = await azureInMemory();
    const store = await server.open({ contentMd5: 'true' });
    const [upload, receipts, bytes] = await uploadOf(store, [PART]);
    await upload.complete(receipts, whole(bytes));
    await store.create('a', Buffer.from('abc'));
    const bodies = server.requests.filter(
      ({ method, query }) => method === 'PUT' && query.get('comp') !== 'blocklist',
    );
    for (const { headers } of bodies) expect(headers['content-md5']).toMatch(/^[A-Za-z0-9+/]{22}==$/);
    const refusing = await azureInMemory({}, () => refusal(400, 'Md5Mismatch'));
    const other = await refusing.open({ contentMd5: 'true' });
    expect((await errorOf(other.create('a', Buffer.from('abc')))).code).toBe('Corrupt');
  });
});
