/** Uploads in blocks: what is sent, and how they end. */

import type { ObjectStore, PartReceipt, Upload } from '@holdfast/core/contract';
import { crc32c } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { errorOf } from '../scripted/scripted-server.ts';
import { azureInMemory, refusal, type ScriptedAzure } from './scripted-azure.ts';

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

  test('an empty last part is sent by nobody', async () => {
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

  test('a receipt of somebody else is refused', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    const [upload, receipts, bytes] = await uploadOf(store, [PART]);
    const forged = receipts.map((receipt) => ({ ...receipt, etag: 'forged' }));
    expect((await errorOf(upload.complete(forged, whole(bytes)))).code).toBe('InvalidArgument');
  });

  test.each([
    '',
    'x',
    'e30',
    Buffer.from('{"key":"a","uploadId":"../","partSizeBytes":1048576}').toString('base64url'),
  ])('a token that is none is InvalidArgument: %j', async (token) => {
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
