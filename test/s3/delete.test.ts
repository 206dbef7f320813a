/** Deletes, also on a store without batch deletes. */

import { describe, expect, test } from 'vitest';
import { errorOf, type Reply, type Script } from '../scripted/scripted-server.ts';
import { refusal, scriptedS3 } from './scripted-s3.ts';

const isBatch: (request: Parameters<Script>[0]) => boolean = ({ query }) => query.has('delete');

function deleteResult(...errors: readonly [key: string, code: string][]): Reply {
  const entries = errors.map(
    ([key, code]) => `<Error><Key>${key}</Key><Code>${code}</Code><Message>told ${code}</Message></Error>`,
  );
  return { body: `<?xml version="1.0"?><DeleteResult>${entries.join('')}</DeleteResult>` };
}

describe('the batch', () => {
  test('has errors of single keys; the others are gone, and what was not there too', async () => {
    const server = await scriptedS3(() =>
      deleteResult(['gpt/locked', 'AccessDenied'], ['gpt/gone', 'NoSuchKey'], ['gpt/slow', 'SlowDown']),
    );
    const store = await server.open();
    const results = await store.deleteMany(['a', 'locked', 'gone', 'slow', 'b']);
    expect(results.map(({ key, error }) => [key, error?.code, error?.status])).toEqual([
      ['a', undefined, undefined],
      ['locked', 'Denied', 'permanent'],
      ['gone', undefined, undefined],
      ['slow', 'Throttled', 'temporary'],
      ['b', undefined, undefined],
    ]);
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]?.body.toString()).toContain('<Key>gpt/locked</Key>');
  });

  test('keys that XML has to escape, and answers that do so', async () => {
    const server = await scriptedS3(() => deleteResult(['gpt/a&amp;b&lt;c', 'AccessDenied']));
    const store = await server.open();
    const [refused, gone] = await store.deleteMany(['a&b<c', 'x"y']);
    expect([refused?.error?.code, gone?.error]).toEqual(['Denied', undefined]);
    expect(server.requests[0]?.body.toString()).toContain('<Key>gpt/a&amp;b&lt;c</Key>');
  });

  test('1,000 keys are one request, one more is two', async () => {
    const server = await scriptedS3(() => deleteResult());
    const store = await server.open();
    const keys = Array.from({ length: 1001 }, (_, index) => `k${index}`);
    expect(await store.deleteMany(keys)).toEqual(keys.map((key) => ({ key })));
    expect(server.requests.map(({ body }) => body.toString().split('<Key>').length - 1)).toEqual([1000, 1]);
  });

  test('nothing to delete is no request', async () => {
    const server = await scriptedS3(() => deleteResult());
    const store = await server.open();
    expect(await store.deleteMany([])).toEqual([]);
    expect(server.requests).toHaveLength(0);
  });

  test('that fails as a whole says so, and is sent once', async () => {
    const server = await scriptedS3(() => refusal(500, 'InternalError'));
    const store = await server.open();
    expect(await errorOf(store.deleteMany(['a']))).toMatchObject({
      code: 'Unavailable',
      status: 'temporary',
    });
    expect(server.requests).toHaveLength(1);
  });

  test('that is not allowed is not taken for one that does not exist', async () => {
    const server = await scriptedS3(() => refusal(403, 'AccessDenied'));
    const store = await server.open();
    expect((await errorOf(store.deleteMany(['a']))).code).toBe('Denied');
    expect(server.requests).toHaveLength(1);
  });
});

describe('a store without a batch', () => {
  const withoutBatch =
    (code: string): Script =>
    (request) => {
      if (isBatch(request)) return refusal(code === 'NotImplemented' ? 501 : 400, code);
      if (request.path.endsWith('/locked')) return refusal(403, 'AccessDenied');
      return request.path.endsWith('/gone') ? refusal(404, 'NoSuchKey') : { status: 204 };
    };

  test.each(['NotImplemented', 'MissingContentMD5', 'InvalidRequest'])(
    '%s: one request for each key, and the batch is not tried again',
    async (code) => {
      const server = await scriptedS3(withoutBatch(code));
      const store = await server.open();
      const results = await store.deleteMany(['a', 'locked', 'gone']);
      expect(results.map(({ key, error }) => [key, error?.code])).toEqual([
        ['a', undefined],
        ['locked', 'Denied'],
        ['gone', undefined],
      ]);
      await store.deleteMany(['b']);
      expect(server.requests.filter(isBatch)).toHaveLength(1);
      expect(server.requests.slice(1).map(({ method }) => method)).toEqual([
        'DELETE',
        'DELETE',
        'DELETE',
        'DELETE',
      ]);
    },
  );

  test('many keys keep their order', async () => {
    const server = await scriptedS3(withoutBatch('NotImplemented'));
    const store = await server.open();
    const keys = Array.from({ length: 100 }, (_, index) => (index === 70 ? 'locked' : `k${index}`));
    const results = await store.deleteMany(keys);
    expect(results.map(({ key }) => key)).toEqual(keys);
    expect(results.filter(({ error }) => error !== undefined).map(({ key }) => key)).toEqual(['locked']);
  });

  test('a signal that fires under way stops all of it', async () => {
    const stop = new AbortController();
    const server = await scriptedS3((request) => {
      if (isBatch(request)) return refusal(501, 'NotImplemented');
      stop.abort();
      return 'silence';
    });
    const store = await server.open();
    expect((await errorOf(store.deleteMany(['a', 'b'], { signal: stop.signal }))).code).toBe('Aborted');
  });
});
