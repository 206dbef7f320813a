/** Servers that answer unlike S3, servers that do not answer, and TLS, as a user sees them. */

import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { refusal, scriptedS3 } from '../s3/scripted-s3.ts';
import type { Reply } from '../scripted/scripted-server.ts';
import { describeOnMinio } from '../servers/describe-on-s3.ts';
import { freePort } from '../servers/start-server.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { type Ended, newPlace, writeFiles } from './holdfast-process.ts';
import { cli, type Env, expectError, expectNoSecretTold, FILES, HASTY, withQuery } from './s3-process.ts';

// Each test starts several processes, and other tests may keep the machine busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

afterAll(expectNoSecretTold);

describe('servers that answer otherwise', () => {
  const ENV = { AWS_ACCESS_KEY_ID: 'AKIDSCRIPTED', AWS_SECRET_ACCESS_KEY: 'secret-of-the-scripted-server' };

  async function answered(reply: Reply, env: Env = ENV): Promise<Ended> {
    const server = await scriptedS3(() => reply);
    return cli(['list', server.uri()], env);
  }

  test('a session token that has expired', async () => {
    const env = { ...ENV, AWS_SESSION_TOKEN: 'canary-of-an-old-session' };
    const ended = await answered(
      refusal(400, 'ExpiredToken', { message: 'The provided token has expired.' }),
      env,
    );
    expectError(ended, 'Denied', 8, 'the session token has expired; get new credentials');
  });

  test('a clock that is refused even when put right', async () => {
    const date = new Date(Date.now() + 1_200_000).toUTCString();
    const ended = await answered(refusal(403, 'RequestTimeTooSkewed', { headers: { date } }));
    expectError(ended, 'Denied', 8, 'the clock of this machine is wrong; set it');
  });

  test('another region, which is not named', async () => {
    const ended = await answered(refusal(301, 'PermanentRedirect'));
    expectError(ended, 'InvalidConfig', 2, 'the bucket is in another region; set region= in the URI');
  });

  test.each<[string, Reply]>([
    [
      '404 of a web server',
      { status: 404, headers: { 'content-type': 'text/html' }, body: '<html>nginx</html>' },
    ],
    [
      'a page for everything',
      { status: 200, headers: { 'content-type': 'text/html' }, body: '<!doctype html><p>Hi' },
    ],
    ['a redirect to a page', { status: 302, headers: { location: '/login' } }],
  ])('an endpoint that is no S3: %s', async (_name, reply) => {
    expectError(
      await answered(reply),
      'InvalidConfig',
      2,
      's3://runs/gpt does not lead to a server that speaks S3',
      'endpoint=',
    );
  });
});

describe('servers that do not answer', () => {
  const ENV = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'canary-for-nobody' };

  /** The time that the process would have waited between its attempts without `HASTY`. */
  function waitedMs({ stderr }: Ended): number {
    return Array.from(stderr.matchAll(/ in (\d+) ms$/gm), ([, ms]) => Number(ms)).reduce(
      (sum, ms) => sum + ms,
      0,
    );
  }

  test.each([
    ['nobody listens', async () => `http://127.0.0.1:${await freePort()}`, 'ECONNREFUSED'],
    [
      'a name that does not exist',
      async () => 'http://no-such-host.invalid',
      'the name of the server cannot be resolved',
    ],
  ])('%s: Unavailable, after a minute of trying at most', async (_name, endpoint, words) => {
    const uri = `s3://runs/gpt?endpoint=${await endpoint()}`;
    const ended = await cli(['list', uri, '--verbose'], { ...ENV, ...HASTY });
    // The resolver may be slow.
    expect(ended.stderr).toMatch(/\((Unavailable|TimedOut), exit 75\)/);
    expect(ended.stderr).toContain(words);
    expect(ended.code).toBe(75);
    expect(waitedMs(ended)).toBeGreaterThan(0);
    expect(waitedMs(ended)).toBeLessThan(66_000);
  });

  test.each(['list', 'save'])('%s: that it is tried again, and why, is told at once', async (command) => {
    const place = await newPlace();
    const directory = await writeFiles(place, 'ckpt', FILES);
    const uri = `s3://runs/gpt?endpoint=http://127.0.0.1:${await freePort()}`;
    const operands = command === 'save' ? [directory, uri, '--version', '1'] : [uri];
    let isStopped = false;
    const ended = await cli([command, ...operands], ENV, {
      onStderr: (text, kill) => {
        if (isStopped || !text.includes('trying again: ')) return;
        isStopped = true;
        kill('SIGINT');
      },
    });
    expect(ended.stderr).toMatch(/^trying again: .*ECONNREFUSED.*; try 2 in \d+ ms$/m);
    expect(ended.code).toBe(130);
  });
});

describeOnMinio('TLS', { tls: true }, (minio) => {
  const withoutCa = (uri: string) => uri.replace(/&ca=[^&]*/, '');
  let bucket: TestBucket;

  beforeAll(async () => {
    bucket = await minio().newBucket();
  });

  test('a certificate that is not trusted: InvalidConfig at once, and ca= helps', async () => {
    const refused = await cli(['list', withoutCa(bucket.uri)], bucket.env);
    expectError(refused, 'InvalidConfig', 2, 'the certificate of the server is not trusted', 'ca=');
    expect(refused.stderr).not.toContain('trying again');
    expectError(await cli(['list', bucket.uri], bucket.env), 'NotFound', 6, 'no run at ');
    const trusting = { ...bucket.env, AWS_CA_BUNDLE: minio().caPath ?? '' };
    expectError(await cli(['list', withoutCa(bucket.uri)], trusting), 'NotFound', 6, 'no run at ');
  });

  test('a certificate for another name', async () => {
    const uri = withQuery(bucket.uri, {
      endpoint: minio().endpoint.replace('127.0.0.1', '[::ffff:127.0.0.1]'),
    });
    expectError(
      await cli(['list', uri], bucket.env),
      'InvalidConfig',
      2,
      'the certificate of the server is not trusted',
      "does not match certificate's altnames",
    );
  });

  test.each([
    [
      'a file that is not there',
      '/no/such/ca.pem',
      'the certificates in /no/such/ca.pem (ca=) cannot be read',
    ],
    ['a file that holds none', '/dev/null', '/dev/null (ca=) holds no certificate'],
    ['a relative path', 'ca.pem', 'ca is the absolute path'],
  ])('ca= of %s', async (_name, ca, words) => {
    expectError(await cli(['list', withQuery(bucket.uri, { ca })], bucket.env), 'InvalidConfig', 2, words);
  });

  test('https:// where the server speaks http', async () => {
    const { endpoint } = await scriptedS3(() => ({ status: 404 }));
    const uri = withQuery(bucket.uri, { endpoint: endpoint.replace('http:', 'https:') });
    expectError(
      await cli(['list', uri], bucket.env),
      'InvalidConfig',
      2,
      'does not speak TLS there; write http://',
    );
  });

  test('SSE-C: what is saved with a key needs it, and the key is not told', async () => {
    const place = await newPlace();
    const directory = await writeFiles(place, 'ckpt', FILES);
    const key = (byte: number): Env => ({
      ...bucket.env,
      HOLDFAST_S3_CUSTOMER_KEY: Buffer.alloc(32, byte).toString('base64'),
    });
    const saved = await cli(['save', directory, bucket.uri, '--version', '1'], key(1));
    expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
    expect((await cli(['restore', bucket.uri, place.path('out')], key(1))).code).toBe(0);
    for (const env of [bucket.env, key(2)]) {
      const ended = await cli(['restore', bucket.uri, place.path('other'), '--verbose'], env);
      expect(ended.code).not.toBe(0);
      expect(ended.stderr).toMatch(/HOLDFAST_S3_CUSTOMER_KEY/);
    }
    const bad = await cli(['list', bucket.uri], {
      ...bucket.env,
      HOLDFAST_S3_CUSTOMER_KEY: 'canary-key-that-is-short',
    });
    expectError(bad, 'InvalidConfig', 2, 'HOLDFAST_S3_CUSTOMER_KEY is not the base64 of 32 bytes');
  });
});
