/** Copies inside GCS, in which the store moves the bytes. */

import { crc32c } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { errorOf } from '../scripted/scripted-server.ts';
import { json, refusal } from './fake-gcs.ts';
import { isRead, onlyFor, scriptedGcs } from './scripted-gcs.ts';

const BYTES = Buffer.from('0123456789');
const isRewrite = ({ path }: { path: string }) => path.includes('/rewriteTo/');

async function withSource(...args: Parameters<typeof scriptedGcs>) {
  const server = await scriptedGcs(...args);
  const source = await server.open();
  await source.create('a/b', BYTES);
  // Another prefix of the same bucket.
  const target = await server.open();
  return { server, source, target };
}

describe('copyFrom', () => {
  test('takes as many steps as the store wants, and tells how far it is', async () => {
    const { server, source, target } = await withSource();
    server.fake.rewriteStepBytes = 4;
    const progress: number[] = [];
    const onProgress = (bytes: number) => void progress.push(bytes);
    const copied = await target.copyFrom?.(source, 'a/b', 'c', { sizeBytes: 10, onProgress });
    expect(copied).toEqual({ ...(await target.head('c')), crc32c: crc32c(BYTES) });
    expect(progress).toEqual([4, 8, 10]);
    expect(server.fake.objects.get('gpt/c')?.bytes).toEqual(BYTES);
    const steps = server.requests.filter(isRewrite);
    expect(steps.map(({ query }) => query.get('rewriteToken'))).toEqual([null, 'REWRITE-0', 'REWRITE-1']);
    expect(steps.every(({ query }) => query.get('ifGenerationMatch') === '0')).toBe(true);
    expect(steps[0]?.path).toBe('/storage/v1/b/runs/o/gpt%2Fa%2Fb/rewriteTo/b/runs/o/gpt%2Fc');
    expect(server.requests.some(isRead)).toBe(false);
  });

  test('never replaces an object', async () => {
    const { server, source, target } = await withSource();
    await target.create('c', Buffer.from('other'));
    const call = target.copyFrom?.(source, 'a/b', 'c', { sizeBytes: 10 });
    expect((await errorOf(call as Promise<unknown>)).code).toBe('AlreadyExists');
    expect(server.fake.objects.get('gpt/c')?.bytes.toString()).toBe('other');
  });

  test('a source that is missing is told as such', async () => {
    const { source, target } = await withSource();
    const error = await errorOf(
      target.copyFrom?.(source, 'gone', 'c', { sizeBytes: 10 }) as Promise<unknown>,
    );
    expect([error.code, error.message]).toEqual(['NotFound', 'object gone in gs://runs/gpt does not exist']);
  });

  test('a copy that has another size is Corrupt, and is deleted', async () => {
    const { server, source, target } = await withSource();
    const error = await errorOf(target.copyFrom?.(source, 'a/b', 'c', { sizeBytes: 11 }) as Promise<unknown>);
    expect(error.code).toBe('Corrupt');
    expect([...server.fake.objects.keys()]).toEqual(['gpt/a/b']);
  });

  test('between different kinds of stores, servers or credentials: null, and nothing is sent', async () => {
    const { server, source, target } = await withSource();
    const before = server.requests.length;
    const elsewhere = await (await scriptedGcs()).open();
    const memory = new MemoryStore();
    await memory.create('a/b', BYTES);
    for (const other of [memory, elsewhere])
      expect(await target.copyFrom?.(other, 'a/b', 'c', { sizeBytes: 10 })).toBeNull();
    const withToken = await server.open({ auth: 'true' });
    expect(await withToken.copyFrom?.(source, 'a/b', 'c', { sizeBytes: 10 })).toBeNull();
    expect(server.requests.length).toBe(before);
  });

  test('credentials that do not reach both: null, and nothing is written', async () => {
    const { server, source, target } = await withSource(onlyFor(isRewrite, refusal(403, 'forbidden')));
    expect(await target.copyFrom?.(source, 'a/b', 'c', { sizeBytes: 10 })).toBeNull();
    expect(server.fake.objects.size).toBe(1);
  });

  test.each([
    ['neither done nor a next step', json({ done: false, totalBytesRewritten: '4' }), 'Unavailable'],
    ['done, without the object', json({ done: true }), 'Unavailable'],
    ['of a server that is no GCS', { body: '{"done":true}' }, 'InvalidConfig'],
    ['503', refusal(503, 'backendError'), 'Unavailable'],
    ['429', refusal(429, 'rateLimitExceeded'), 'Throttled'],
  ])('an answer that is %s', async (_name, reply, code) => {
    const { source, target } = await withSource(onlyFor(isRewrite, reply));
    const call = target.copyFrom?.(source, 'a/b', 'c', { sizeBytes: 10 });
    expect((await errorOf(call as Promise<unknown>)).code).toBe(code);
  });

  test('ends between two steps when the signal fires', async () => {
    const stop = new AbortController();
    const { server, source, target } = await withSource();
    server.fake.rewriteStepBytes = 1;
    const onProgress = () => stop.abort();
    const call = target.copyFrom?.(source, 'a/b', 'c', { sizeBytes: 10, onProgress, signal: stop.signal });
    expect((await errorOf(call as Promise<unknown>)).code).toBe('Aborted');
    expect(server.requests.filter(isRewrite)).toHaveLength(1);
  });
});
