/**
 * Rejections that the adapter can correct once by itself: another region, a wrong clock, expired
 * credentials.
 */

import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { crc32c } from '@holdfast/core';
import type { CheckpointError, ObjectStore } from '@holdfast/core/contract';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { startProxy } from '../scripted/proxy.ts';
import { errorOf, firstPage, type Script, type SeenRequest, sequence } from '../scripted/scripted-server.ts';
import { CREATED, KEYS, listing, object, refusal, scriptedS3, uploadGoesWell } from './scripted-s3.ts';
import { signedRegion } from './signature-fault.ts';

const BYTES = new Uint8Array([1, 2, 3]);
const MINUTE_MS = 60_000;

/** Both paths of a request: built by the adapter, and through the SDK. */
const CALLS: readonly [string, (store: ObjectStore) => Promise<unknown>][] = [
  ['create', (store) => store.create('a', BYTES)],
  ['list', (store) => firstPage(store)],
];

const succeed: Script = ({ method }) => (method === 'PUT' ? CREATED : listing());

describe('another region', () => {
  const redirects = [
    [
      '301 with a header',
      refusal(301, 'PermanentRedirect', { headers: { 'x-amz-bucket-region': 'eu-west-1' } }),
    ],
    [
      '400 with an element',
      refusal(400, 'AuthorizationHeaderMalformed', { xml: '<Region>eu-west-1</Region>' }),
    ],
    [
      '307 with a header',
      refusal(307, 'TemporaryRedirect', { headers: { 'x-amz-bucket-region': 'eu-west-1' } }),
    ],
  ] as const;

  test.each(
    CALLS.flatMap(([call, act]) => redirects.map(([how, answer]) => [call, how, act, answer] as const)),
  )('%s: %s: sent again, signed for that region, which is remembered', async (_call, _how, act, answer) => {
    const server = await scriptedS3(sequence(answer, succeed));
    const store = await server.open();
    await act(store);
    for (const [, another] of CALLS) await another(store);
    expect(server.requests.map(signedRegion)).toEqual(['us-east-1', 'eu-west-1', 'eu-west-1', 'eu-west-1']);
  });

  test('the answer to HEAD has the header alone', async () => {
    const server = await scriptedS3(
      sequence({ status: 301, headers: { 'x-amz-bucket-region': 'eu-west-1' } }, object('abc')),
    );
    const store = await server.open();
    expect(await store.head('a')).toMatchObject({ sizeBytes: 3 });
    expect(server.requests.map(signedRegion)).toEqual(['us-east-1', 'eu-west-1']);
  });

  test('requests that were under way together are all sent again', async () => {
    const server = await scriptedS3((request) =>
      signedRegion(request) === 'eu-west-1'
        ? CREATED
        : refusal(400, 'AuthorizationHeaderMalformed', { xml: '<Region>eu-west-1</Region>' }),
    );
    const store = await server.open();
    await Promise.all(Array.from({ length: 8 }, (_, index) => store.create(`a${index}`, BYTES)));
    expect(server.requests).toHaveLength(16);
  });

  test('from region to region there is no endless walk', async () => {
    const server = await scriptedS3((_, index) =>
      refusal(301, 'PermanentRedirect', { headers: { 'x-amz-bucket-region': `region-${index}` } }),
    );
    const store = await server.open();
    const error = await errorOf(store.create('a', BYTES));
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toContain('set region= in the URI');
    expect(server.requests).toHaveLength(2);
  });

  test.each(CALLS)('%s: a redirect that names no region is InvalidConfig at once', async (_name, act) => {
    const server = await scriptedS3(() => refusal(301, 'PermanentRedirect'));
    const store = await server.open();
    const error = await errorOf(act(store));
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toContain('set region= in the URI');
    expect(server.requests).toHaveLength(1);
  });

  test('a refusal that names the region we are in is final', async () => {
    const server = await scriptedS3(() =>
      refusal(403, 'AccessDenied', { headers: { 'x-amz-bucket-region': 'us-east-1' } }),
    );
    const store = await server.open();
    expect((await errorOf(store.create('a', BYTES))).code).toBe('Denied');
    expect(server.requests).toHaveLength(1);
  });
});

describe('a clock that is wrong', () => {
  function signedAtMs({ headers }: SeenRequest): number {
    const text = headers['x-amz-date'] ?? '';
    return Date.parse(text.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  }

  /** A server whose clock is 20 minutes ahead. It rejects requests as S3 does beyond 15 minutes. */
  const ahead: Script = (request) => {
    const nowMs = Date.now() + 20 * MINUTE_MS;
    const headers = { date: new Date(nowMs).toUTCString() };
    if (Math.abs(nowMs - signedAtMs(request)) > 15 * MINUTE_MS)
      return refusal(403, 'RequestTimeTooSkewed', { headers });
    return request.method === 'PUT'
      ? { ...CREATED, headers: { ...CREATED.headers, ...headers } }
      : { ...listing(), headers };
  };

  test.each(CALLS)('%s: the time of the store is used from the first refusal on', async (_name, act) => {
    const server = await scriptedS3(ahead);
    const store = await server.open();
    await act(store);
    for (const [, another] of CALLS) await another(store);
    expect(server.requests).toHaveLength(4);
    const offsets = server.requests.map(
      (request) => Math.round((signedAtMs(request) - Date.now()) / MINUTE_MS) + 0,
    );
    expect(offsets).toEqual([0, 20, 20, 20]);
  });

  test('requests that were under way together are all sent again', async () => {
    const server = await scriptedS3(ahead);
    const store = await server.open();
    await Promise.all(Array.from({ length: 8 }, (_, index) => store.create(`a${index}`, BYTES)));
    expect(server.requests).toHaveLength(16);
  });

  test.each(CALLS)('%s: refused again: Denied, and the clock is named', async (_name, act) => {
    const server = await scriptedS3(() =>
      refusal(403, 'RequestTimeTooSkewed', {
        headers: { date: new Date(Date.now() + 20 * MINUTE_MS).toUTCString() },
      }),
    );
    const store = await server.open();
    const error = await errorOf(act(store));
    expect(error.code).toBe('Denied');
    expect(error.message).toContain('clock');
    expect(server.requests).toHaveLength(2);
  });

  test('refused although the clocks agree: sent once', async () => {
    const server = await scriptedS3(() => refusal(403, 'RequestTimeTooSkewed'));
    const store = await server.open();
    expect((await errorOf(store.create('a', BYTES))).code).toBe('Denied');
    expect(server.requests).toHaveLength(1);
  });
});

describe('credentials that have expired', () => {
  /**
   * A profile whose credentials come from a program that returns new ones each time: AKID1, AKID2,
   * …
   */
  async function profile({ isStuck = false } = {}): Promise<Record<string, string>> {
    const directory = await mkdtemp(join(tmpdir(), 'holdfast-s3-'));
    onTestFinished(() => rm(directory, { recursive: true, force: true }));
    const count = join(directory, 'count');
    const script = join(directory, 'credentials.sh');
    await writeFile(count, '');
    const next = isStuck ? 'n=1' : `printf x >> '${count}'; n=$(wc -c < '${count}' | tr -d ' ')`;
    const json =
      '{"Version":1,"AccessKeyId":"AKID%s","SecretAccessKey":"secret-of-AKID%s","SessionToken":"token-%s"}';
    await writeFile(script, `#!/bin/sh\n${next}\nprintf '${json}' "$n" "$n" "$n"\n`);
    await chmod(script, 0o755);
    await writeFile(
      join(directory, 'config'),
      `[profile train]\nregion = us-east-1\ncredential_process = ${script}\n`,
    );
    await writeFile(join(directory, 'credentials'), '');
    // The SDK finds its files only through the environment of the process.
    vi.stubEnv('AWS_CONFIG_FILE', join(directory, 'config'));
    vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(directory, 'credentials'));
    onTestFinished(() => {
      vi.unstubAllEnvs();
    });
    return { profile: 'train' };
  }

  const tokenOf = ({ headers }: SeenRequest) => headers['x-amz-security-token'];

  const expired: Script = (request, index) =>
    tokenOf(request) === 'token-1' ? refusal(400, 'ExpiredToken') : succeed(request, index);

  test.each(CALLS)('%s: fetched anew, and the request sent again', async (_name, act) => {
    const server = await scriptedS3(expired);
    const store = await server.open(await profile());
    await act(store);
    for (const [, another] of CALLS) await another(store);
    expect(server.requests.map(tokenOf)).toEqual(['token-1', 'token-2', 'token-2', 'token-2']);
  });

  test('requests that were under way together are all sent again, with one fetch', async () => {
    const server = await scriptedS3(expired);
    const store = await server.open(await profile());
    await Promise.all(Array.from({ length: 8 }, (_, index) => store.create(`a${index}`, BYTES)));
    const tokens = server.requests.map(tokenOf).sort();
    expect(tokens).toEqual([...Array(8).fill('token-1'), ...Array(8).fill('token-2')]);
  });

  test.each(CALLS)('%s: refused again: Denied', async (_name, act) => {
    const server = await scriptedS3(() => refusal(400, 'ExpiredToken'));
    const store = await server.open(await profile());
    const error = await errorOf(act(store));
    expect(error.code).toBe('Denied');
    expect(error.message).toContain('expired');
    expect(server.requests).toHaveLength(2);
  });

  test('the same credentials again are not tried again', async () => {
    const server = await scriptedS3(() => refusal(400, 'ExpiredToken'));
    const store = await server.open(await profile({ isStuck: true }));
    expect((await errorOf(store.create('a', BYTES))).code).toBe('Denied');
    expect(server.requests).toHaveLength(1);
  });

  test.each([
    ['AWS_ACCESS_KEY_ID', 'AKIDSCRIPTED\r', 'an access key id or token of the credentials'],
    ['AWS_SESSION_TOKEN', 'canary-token\n', 'the session token of the credentials'],
    ['AWS_SESSION_TOKEN', 'canary-\u{1f511}', 'the session token of the credentials'],
  ])(
    '%s = %j cannot be sent: InvalidConfig at once, and its text is not told',
    async (name, value, words) => {
      const server = await scriptedS3(() => CREATED);
      const proxy = await startProxy();
      for (const env of [{}, { HTTP_PROXY: proxy.url }]) {
        const store = await server.open({}, { [name]: value, ...env });
        for (const call of [store.create('a', BYTES), firstPage(store)]) {
          const error = await errorOf(call as Promise<unknown>);
          expect(error).toMatchObject({ code: 'InvalidConfig', status: 'permanent' });
          expect(error.message).toContain(`${words} contains a control character`);
          expect(inspect(error)).not.toContain(value.trim());
        }
      }
      expect([server.requests.length, proxy.asked.length]).toEqual([0, 0]);
    },
  );

  test('those of the environment cannot be fetched anew: Denied at once, and no secret is told', async () => {
    const server = await scriptedS3(() => refusal(400, 'ExpiredToken'));
    const store = await server.open({}, { AWS_SESSION_TOKEN: 'canary-token' });
    const error = await errorOf(store.create('a', BYTES));
    expect(error.code).toBe('Denied');
    expect(server.requests).toHaveLength(1);
    const told = JSON.stringify([error.message, error.context, String(error.cause)]);
    expect(told).not.toContain('canary-token');
    expect(told).not.toContain(KEYS.AWS_SECRET_ACCESS_KEY);
  });

  test.each(['a part', 'the completion'])(
    'a server that quotes the id of the upload, for %s',
    async (what) => {
      const id = '2FUz8q8R-kfk7k0';
      const server = await scriptedS3((request, index) => {
        const { method, query } = request;
        if (method === 'POST' && query.has('uploads'))
          return {
            body: `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
          };
        if (method === (what === 'a part' ? 'PUT' : 'POST'))
          return refusal(403, 'AccessDenied', { message: `not yours: ${id}, or ${btoa(id)}` });
        return uploadGoesWell(request, index);
      });
      const store = await server.open();
      const upload = await store.beginUpload('a', { partSizeBytes: 5 * 1024 * 1024 });
      const work = async () => {
        const part = await upload.putPart(0, BYTES, { crc32c: crc32c(BYTES) });
        await upload.complete([part], { sizeBytes: BYTES.byteLength, crc32c: crc32c(BYTES) });
      };
      const { message, cause } = await errorOf(work());
      expect(message).toContain('not yours: [secret], or [secret]');
      expect(String(cause)).not.toContain(id);
    },
  );

  test('a server that tells the secret key it knows: it is told no further', async () => {
    const { AWS_SECRET_ACCESS_KEY: secret } = KEYS;
    const message = `your key is ${secret}, or ${encodeURIComponent(secret)}`;
    const refused = refusal(403, 'SignatureDoesNotMatch', {
      message,
      headers: { 'x-amz-request-id': secret },
    });
    const ofItem = `<DeleteResult><Error><Key>gpt/a</Key><Code>AccessDenied</Code><Message>${message}</Message></Error></DeleteResult>`;
    const server = await scriptedS3(({ method }) => (method === 'POST' ? { body: ofItem } : refused));
    const store = await server.open();
    const [item] = await store.deleteMany(['a']);
    const errors = [
      await errorOf(store.create('a', BYTES)),
      await errorOf(firstPage(store) as Promise<unknown>),
      item?.error as CheckpointError,
    ];
    expect(errors.map(({ code }) => code)).toEqual(['Denied', 'Denied', 'Denied']);
    for (const error of errors) {
      expect(error.message).toContain('your key is [secret]');
      expect(inspect(error, { depth: 9 })).not.toContain(secret);
    }
  });
});
