/**
 * Errors on S3 as a user sees them. Each has its own message, code and exit status, and no output
 * contains a secret.
 */

import { mkdir, readFile } from 'node:fs/promises';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { findingsOf } from '@holdfast/cli/internal/doctor';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { refusal, type ScriptedS3, scriptedS3 } from '../s3/scripted-s3.ts';
import { signedRegion } from '../s3/signature-fault.ts';
import { passOn, type Reply, type Script } from '../scripted/scripted-server.ts';
import { describeOnMinio } from '../servers/describe-on-s3.ts';
import { credentialsEnv, type Policy, restrictedCredentials, s3Client } from '../servers/s3-access.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { contentOf, newPlace, type Place, writeFiles } from './holdfast-process.ts';
import {
  cli,
  cliUnderMounts,
  type Env,
  expectError,
  expectNoSecretTold,
  FILES,
  HASTY,
  keepSecret,
  SLOW_CLOCK,
  withQuery,
} from './s3-process.ts';

// Each test starts several processes, and other tests may keep the machine busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

afterAll(expectNoSecretTold);

describeOnMinio('bad input on MinIO', {}, (minio) => {
  let place: Place;
  let bucket: TestBucket;

  beforeAll(async () => {
    place = await newPlace();
    await writeFiles(place, 'ckpt', FILES);
    bucket = await minio().newBucket();
    const saved = await cli(['save', place.path('ckpt'), bucket.uri, '--version', '1'], bucket.env);
    expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
  });

  afterAll(() => place.remove());

  describe('names', () => {
    test.each(['list', 'verify'])('%s: a missing bucket', async (command) => {
      const uri = bucket.uri.replace(bucket.bucket, 'no-such-bucket');
      const ended = await cli([command, uri], bucket.env);
      expectError(
        ended,
        'NotFound',
        6,
        's3://no-such-bucket/run names a bucket that does not exist',
        'Holdfast creates no buckets',
      );
      expect(ended.stdout).toBe('');
    });

    test('save: a missing bucket is not made', async () => {
      const uri = bucket.uri.replace(bucket.bucket, 'no-such-bucket');
      const ended = await cli(['save', place.path('ckpt'), uri, '--version', '1'], bucket.env);
      expectError(ended, 'NotFound', 6, 'names a bucket that does not exist');
    });

    test('restore: a run that is not there', async () => {
      const uri = bucket.uri.replace('/run?', '/other?');
      const ended = await cli(['restore', uri, place.path('out')], bucket.env);
      expectError(ended, 'NotFound', 6, 'no run at ', 'check the URI');
      expect(await contentOf(place.path('out'))).toEqual({});
    });

    test.each([
      ['a name that cannot be one', 's3://Ru/x', 'has an invalid bucket name'],
      ['credentials in the URI', 's3://AKIA:canary-in-uri@runs/x', 'contains credentials'],
      ['a setting that is not known', 's3://runs/x?regoin=eu', 'has an unknown setting'],
      ['a prefix of 513 bytes', `s3://runs/${'p'.repeat(513)}`, 'has a prefix of more than 512 bytes'],
    ])('%s', async (_name, uri, words) => {
      keepSecret('canary-in-uri');
      expectError(
        await cli(['list', uri], bucket.env),
        'InvalidConfig',
        2,
        words,
        'accepted: s3://bucket/prefix',
      );
    });

    test('a bucket whose name has dots is reached by its path', async () => {
      const name = `holdfast.test.${Date.now()}`;
      const client = await s3Client(minio());
      await client.send(new CreateBucketCommand({ Bucket: name }));
      client.destroy();
      const uri = bucket.uri.replace(bucket.bucket, name);
      const saved = await cli(['save', place.path('ckpt'), uri, '--version', '1'], bucket.env);
      expect(saved.code).toBe(0);
      expect((await cli(['latest', uri], bucket.env)).stdout).toBe('1\n');
    });

    test.each([
      ['spaces, plus, percent and unicode', 'a b+c/%25/ü 日本/🙂'],
      ['512 bytes', `${'p'.repeat(255)}/${'q'.repeat(255)}/`.slice(0, 512)],
    ])('a prefix with %s: what is saved comes back', async (name, prefix) => {
      const uri = bucket.uri.replace('/run?', `/${prefix}?`);
      const saved = await cli(['save', place.path('ckpt'), uri, '--version', '1'], bucket.env);
      expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
      const out = place.path(`out-${name.length}`);
      const restored = await cli(['restore', uri, out], bucket.env);
      expect([restored.stderr, restored.code]).toEqual([expect.any(String), 0]);
      expect(await contentOf(out)).toEqual(await contentOf(place.path('ckpt')));
    });
  });

  describe('credentials', () => {
    const withEnv = (changes: Record<string, string>): Env => ({ ...bucket.env, ...changes });

    test('none at all: says where they are looked for', async () => {
      const ended = await cli(['list', bucket.uri], {});
      expectError(
        ended,
        'Denied',
        8,
        'no credentials were found',
        'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
      );
    });

    test('a key that is not known', async () => {
      const ended = await cli(['list', bucket.uri], withEnv({ AWS_ACCESS_KEY_ID: 'AKIAUNKNOWN' }));
      expectError(ended, 'Denied', 8, 'the access key id is not known to this store', '(InvalidAccessKeyId)');
    });

    test('a wrong secret', async () => {
      const ended = await cli(
        ['list', bucket.uri],
        withEnv({ AWS_SECRET_ACCESS_KEY: 'wrong-canary-secret' }),
      );
      expectError(
        ended,
        'Denied',
        8,
        'the secret key does not belong to the access key id',
        '(SignatureDoesNotMatch)',
      );
    });

    test('an invalid session token', async () => {
      const ended = await cli(['list', bucket.uri], withEnv({ AWS_SESSION_TOKEN: 'canary-of-no-session' }));
      expectError(ended, 'Denied', 8, 'cannot list s3://');
    });

    test('a profile that is not there', async () => {
      const ended = await cli(['list', withQuery(bucket.uri, { profile: 'nobody' })], bucket.env);
      expectError(ended, 'InvalidConfig', 2, 'the profile "nobody" is in neither ~/.aws/config');
    });
  });

  describe('permissions', () => {
    /** Credentials with the manual's policy for this run, except for some actions. */
    async function without(actions: readonly string[], run = 'run'): Promise<Env> {
      const manual = await readFile(new URL('../../docs/stores/s3.md', import.meta.url), 'utf8');
      const text = /```json\n(\{\s*"Version"[\s\S]*?)```/.exec(manual)?.[1] ?? '';
      const policy = JSON.parse(
        text.replaceAll('my-bucket', bucket.bucket).replaceAll('runs/gpt', run),
      ) as Policy;
      const statements = policy.Statement.map((statement) => ({
        ...statement,
        Action: statement.Action.filter((action) => !actions.includes(action)),
      }));
      const Statement = statements.filter(({ Action }) => Action.length > 0);
      return credentialsEnv(await restrictedCredentials(minio(), { Statement }));
    }

    test('to list: nothing works, and it says what is not allowed', async () => {
      const ended = await cli(['list', bucket.uri], await without(['s3:ListBucket']));
      const words = [`cannot list s3://${bucket.bucket}/run`, 'Access Denied', '(AccessDenied)'];
      expectError(ended, 'Denied', 8, ...words);
    });

    test('to put: a save is refused, and what was there stays', async () => {
      const env = await without(['s3:PutObject']);
      const ended = await cli(['save', place.path('ckpt'), bucket.uri, '--version', '2'], env);
      expectError(ended, 'Denied', 8, 'cannot create object', '(AccessDenied)');
      expect((await cli(['latest', bucket.uri], env)).stdout).toBe('1\n');
    });

    test('to get: a restore is refused, and nothing is left at the destination', async () => {
      const out = place.path('out-denied');
      const ended = await cli(['restore', bucket.uri, out], await without(['s3:GetObject']));
      expectError(ended, 'Denied', 8, 'cannot read object', '(AccessDenied)');
      expect(await contentOf(out)).toEqual({});
    });

    test('to delete: saving and restoring need none', async () => {
      const env = await without(['s3:DeleteObject'], 'without-delete');
      const fresh = bucket.uri.replace('/run?', '/without-delete?');
      const saved = await cli(['save', place.path('ckpt'), fresh, '--version', '1'], env);
      expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
      const restored = await cli(['restore', fresh, place.path('out-without-delete')], env);
      expect([restored.stderr, restored.code]).toEqual([expect.any(String), 0]);
    });

    test('listing and reading are enough to look, to verify and to restore', async () => {
      const env = await without([
        's3:PutObject',
        's3:DeleteObject',
        's3:AbortMultipartUpload',
        's3:ListMultipartUploadParts',
      ]);
      expect((await cli(['show', bucket.uri], env)).code).toBe(0);
      expect((await cli(['verify', bucket.uri], env)).code).toBe(0);
      const out = place.path('out-read-only');
      const restored = await cli(['restore', bucket.uri, out], env);
      expect([restored.stderr, restored.code]).toEqual([expect.any(String), 0]);
      expect(await contentOf(out)).toEqual(await contentOf(place.path('ckpt')));
    });

    test('those that the manual asks for are enough for all of it, and for this run alone', async () => {
      const env = await without([], 'least');
      const fresh = bucket.uri.replace('/run?', '/least?');
      const saved = await cli(['save', place.path('ckpt'), fresh, '--version', '1'], env);
      expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
      const findings = await findingsOf(fresh, env);
      expect(findings.filter(({ status }) => status !== 'ok')).toEqual([]);
      expectError(await cli(['list', bucket.uri], env), 'Denied', 8);
    });
  });

  describe('a clock that is 20 minutes off', () => {
    test('is put right by that of the store', async () => {
      const env = { ...bucket.env, ...SLOW_CLOCK };
      const fresh = bucket.uri.replace('/run?', '/slow-clock?');
      const saved = await cli(['save', place.path('ckpt'), fresh, '--version', '1'], env);
      expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
      const out = place.path('out-slow-clock');
      const restored = await cli(['restore', fresh, out], env);
      expect([restored.stderr, restored.code]).toEqual([expect.any(String), 0]);
    });
  });

  describe('a disk that is full', () => {
    test('at the destination: StorageFull, and nothing is left there', async () => {
      await mkdir(place.path('disk'), { recursive: true });
      const ended = await cliUnderMounts(
        place.directory,
        `mount -t tmpfs -o size=100k tmpfs disk
         if holdfast restore '${bucket.uri}' disk/out >&2; then exit 99; else status=$?; fi
         find disk -type f
         exit $status`,
        bucket.env,
      );
      expectError(ended, 'StorageFull', 75);
      expect(ended.stdout).toBe('');
    });
  });

  describe('in front of MinIO', () => {
    const secretOf = () => minio().secretAccessKey;

    /** MinIO, except that `script` answers some requests. */
    async function inFront(
      script: (...seen: Parameters<Script>) => Reply | undefined,
    ): Promise<{ server: ScriptedS3; uri: string }> {
      const onward = passOn(minio().endpoint);
      const server = await scriptedS3((request, index) => script(request, index) ?? onward(request, index), {
        secretOf,
      });
      const fresh = await minio().newBucket();
      return { server, uri: withQuery(fresh.uri, { endpoint: server.endpoint }) };
    }

    test('a bucket in another region is found there', async () => {
      const elsewhere = refusal(400, 'AuthorizationHeaderMalformed', { xml: '<Region>eu-west-1</Region>' });
      const { server, uri } = await inFront((request) =>
        signedRegion(request) === 'eu-west-1' ? undefined : elsewhere,
      );
      // Without `--force` a first save also looks around the run, through a second store.
      const ended = await cli(['save', place.path('ckpt'), uri, '--version', '1', '--force'], bucket.env);
      expect([ended.stderr, ended.code]).toEqual([expect.any(String), 0]);
      expect(server.requests.filter((request) => signedRegion(request) !== 'eu-west-1')).toHaveLength(1);
    });

    test('throttling that ends: the save succeeds, and says what it waits for', async () => {
      let refused = 0;
      const { uri } = await inFront(({ method }) => {
        if (method !== 'PUT' || refused >= 3) return undefined;
        refused += 1;
        return refusal(503, 'SlowDown', { headers: { 'retry-after': '1' } });
      });
      const ended = await cli(['save', place.path('ckpt'), uri, '--version', '1'], {
        ...bucket.env,
        ...HASTY,
      });
      expect([ended.stderr, ended.code]).toEqual([expect.any(String), 0]);
      expect(refused).toBe(3);
      expect((await cli(['verify', uri], bucket.env)).code).toBe(0);
    });

    test('throttling for ever: exit 75 in bounded time, and what the store says is told', async () => {
      const { uri } = await inFront(() =>
        refusal(503, 'SlowDown', { message: 'Please reduce your request rate.' }),
      );
      const ended = await cli(['list', uri], { ...bucket.env, ...HASTY });
      expect(ended.stderr).toMatch(
        /^trying again: .*Please reduce your request rate\. \(SlowDown\); try 2 in/,
      );
      // The last attempt and the total time limit may come in any order.
      expect(ended.stderr).toMatch(/\((Throttled|TimedOut), exit 75\)\n$/);
      expect(ended.code).toBe(75);
    });

    test('a store without room: StorageFull, and what was committed before is untouched', async () => {
      let isFull = false;
      const { uri } = await inFront(({ method }) =>
        isFull && method === 'PUT'
          ? refusal(507, 'XMinioStorageFull', {
              message: 'Storage backend has reached its minimum free drive threshold.',
            })
          : undefined,
      );
      expect((await cli(['save', place.path('ckpt'), uri, '--version', '1'], bucket.env)).code).toBe(0);
      isFull = true;
      const ended = await cli(['save', place.path('ckpt'), uri, '--version', '2'], bucket.env);
      expectError(ended, 'StorageFull', 75, 'minimum free drive threshold', 'free space or raise the quota');
      expect((await cli(['latest', uri], bucket.env)).stdout).toBe('1\n');
      expect((await cli(['restore', uri, place.path('out-full')], bucket.env)).code).toBe(0);
    });

    test('a quota that is used up: StorageFull', async () => {
      const { uri } = await inFront(({ method }) =>
        method === 'PUT'
          ? refusal(400, 'XMinioAdminBucketQuotaExceeded', { message: 'Bucket quota exceeded' })
          : undefined,
      );
      const ended = await cli(['save', place.path('ckpt'), uri, '--version', '1'], bucket.env);
      expectError(ended, 'StorageFull', 75, 'Bucket quota exceeded');
    });

    test('credentials that expire in the middle of an upload: Denied, and neither token nor upload is told', async () => {
      await writeFiles(place, 'large', { 'large.bin': Buffer.alloc(40 * 1024 * 1024, 3) });
      const { server, uri } = await inFront(({ query }) =>
        query.get('partNumber') === '3'
          ? refusal(400, 'ExpiredToken', { message: 'The provided token has expired.' })
          : undefined,
      );
      const args = ['save', place.path('large'), uri, '--version', '1', '--verbose'];
      const ended = await cli(args, bucket.env);
      expect(ended.stderr).toContain('(Denied, exit 8)');
      expect(ended.stderr).toContain('the session token has expired; get new credentials');
      expect(ended.code).toBe(8);
      const uploads = server.requests.map(({ query }) => query.get('uploadId')).filter((id) => id !== null);
      expect(uploads.length).toBeGreaterThan(0);
      for (const upload of uploads) keepSecret(upload);
    });
  });
});
