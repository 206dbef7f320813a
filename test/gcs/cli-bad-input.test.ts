/**
 * Errors on GCS as a user sees them. Each has its own message, code and exit status, and no output
 * contains a secret.
 */

import { findingsOf } from '@holdfast/cli/internal/doctor';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { contentOf, newPlace, type Place, writeFiles } from '../e2e/holdfast-process.ts';
import {
  cli,
  type Env,
  expectError,
  expectNoSecretTold,
  FILES,
  HASTY,
  keepSecret,
} from '../e2e/s3-process.ts';
import { type SeenRequest, scriptedServer } from '../scripted/scripted-server.ts';
import { json, refusal } from './fake-gcs.ts';
import { xmlRefusal } from './fake-uploads.ts';
import {
  type GcsScript,
  isBegin,
  isInsert,
  isList,
  isRead,
  onlyFor,
  type ScriptedGcs,
  scriptedGcs,
} from './scripted-gcs.ts';

// Each test starts several processes, and other tests may keep the machine busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const KEY = Buffer.alloc(32, 'canary-of-a-customer').toString('base64');

/** Hides all credentials of this machine. */
const NOBODY: Env = { CLOUDSDK_CONFIG: '/nowhere', METADATA_SERVER_DETECTION: 'none' };

let place: Place;

beforeAll(async () => {
  keepSecret('canary-in-uri');
  keepSecret('canary-of-a-workload');
  keepSecret('canary-token');
  keepSecret(KEY);
  place = await newPlace();
  await writeFiles(place, 'ckpt', FILES);
});

afterAll(async () => {
  await place.remove();
  expectNoSecretTold();
});

const isDelete = ({ method }: SeenRequest) => method === 'DELETE';

/** Google's message for a missing permission. */
const denied = (permission: string) =>
  refusal(
    403,
    'forbidden',
    `trainer@p.iam.gserviceaccount.com does not have ${permission} access to the Google Cloud Storage object. Permission '${permission}' denied on resource (or it may not exist).`,
  );

/** A run with one checkpoint, on a server that follows the script from then on. */
async function savedThen(
  script: GcsScript,
  settings: Record<string, string> = {},
): Promise<ScriptedGcs & { run: string }> {
  let isSaved = false;
  const server = await scriptedGcs((request, fake, index) =>
    isSaved ? script(request, fake, index) : undefined,
  );
  const run = server.uri(settings);
  const saved = await cli(['save', place.path('ckpt'), run, '--version', '1'], NOBODY);
  expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
  isSaved = true;
  return Object.assign(server, { run });
}

describe('names', () => {
  test.each([
    ['a name that cannot be one', 'gs://Ru/x', 'has an invalid bucket name'],
    ['credentials in the URI', 'gs://me:canary-in-uri@runs/x', 'contains credentials'],
    ['a setting that is not known', 'gs://runs/x?project=p', 'has an unknown setting'],
    ['a prefix of 513 bytes', `gs://runs/${'p'.repeat(513)}`, 'has a prefix of more than 512 bytes'],
  ])('%s', async (_name, uri, words) => {
    expectError(await cli(['list', uri], NOBODY), 'InvalidConfig', 2, words, 'accepted: gs://bucket/prefix');
  });

  test.each([
    ['list', []],
    ['save', ['--version', '1']],
  ])('%s: a missing bucket', async (command, options) => {
    const server = await scriptedGcs();
    const uri = server.uri().replace('gs://runs/', 'gs://no-such-bucket/');
    const operands = command === 'save' ? [place.path('ckpt'), uri] : [uri];
    const ended = await cli([command, ...operands, ...options], NOBODY);
    expectError(ended, 'NotFound', 6, 'gs://no-such-bucket/gpt names a bucket that does not exist');
  });

  test('restore: a run that is not there', async () => {
    const server = await scriptedGcs();
    const ended = await cli(['restore', server.uri(), place.path('out')], NOBODY);
    expectError(ended, 'NotFound', 6, 'no run at ');
    expect(await contentOf(place.path('out'))).toEqual({});
  });
});

describe('credentials', () => {
  test('none at all: says where they are looked for', async () => {
    const ended = await cli(['list', 'gs://runs/gpt'], NOBODY);
    expectError(ended, 'Denied', 8, 'no credentials were found', 'gcloud auth application-default login');
  });

  test('a file that does not exist, or is not a file', async () => {
    const missing = { ...NOBODY, GOOGLE_APPLICATION_CREDENTIALS: '/nowhere/key.json' };
    expectError(
      await cli(['list', 'gs://runs/gpt'], missing),
      'InvalidConfig',
      2,
      'ENOENT',
      'GOOGLE_APPLICATION_CREDENTIALS',
    );
    await writeFiles(place, 'keys', { 'no.json': 'canary-token' });
    const none = { ...NOBODY, GOOGLE_APPLICATION_CREDENTIALS: place.path('keys/no.json') };
    expectError(await cli(['list', 'gs://runs/gpt'], none), 'InvalidConfig', 2, 'not JSON');
  });

  /** A workload identity whose token comes from this server. */
  async function workload(tokenUrl: string): Promise<Env> {
    await writeFiles(place, 'workload', { subject: 'canary-of-a-workload' });
    const content = {
      type: 'external_account',
      audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q',
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      token_url: `${tokenUrl}/v1/token`,
      credential_source: { file: place.path('workload/subject') },
    };
    await writeFiles(place, 'workload', { 'credentials.json': JSON.stringify(content) });
    return { ...NOBODY, GOOGLE_APPLICATION_CREDENTIALS: place.path('workload/credentials.json') };
  }

  test('revoked: said by its code, and not in the words of the server that was asked for a token', async () => {
    const revoked = json({ error: 'invalid_grant', error_description: 'Token has been revoked.' }, 400);
    const tokens = await scriptedServer(() => revoked);
    const server = await scriptedGcs();
    const ended = await cli(['list', server.uri({ auth: 'true' })], await workload(tokens.endpoint));
    expectError(
      ended,
      'Denied',
      8,
      'the credentials were refused',
      'HTTP 400',
      'they may be revoked or expired',
    );
    expect(ended.stderr).not.toContain('Token has been revoked');
  });

  test('a token that the store does not take, nor the next one', async () => {
    const tokens = await scriptedServer(() =>
      json({
        access_token: 'canary-token',
        expires_in: 3600,
        token_type: 'Bearer',
        issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      }),
    );
    const server = await scriptedGcs(() => refusal(401, 'authError', 'Invalid Credentials'));
    const ended = await cli(['list', server.uri({ auth: 'true' })], await workload(tokens.endpoint));
    expectError(
      ended,
      'Denied',
      8,
      'the store does not accept the token',
      'Invalid Credentials',
      '(authError)',
    );
  });

  test('wanted by a server that was said to want none', async () => {
    const server = await scriptedGcs(() => refusal(401, 'required', 'Anonymous caller does not have access'));
    expectError(await cli(['list', server.uri()], NOBODY), 'Denied', 8, 'auth=true');
  });
});

describe('permissions', () => {
  test('to list: nothing works', async () => {
    const server = await savedThen(onlyFor(isList, denied('storage.objects.list')));
    const ended = await cli(['list', server.run], NOBODY);
    expectError(ended, 'Denied', 8, 'cannot list gs://runs/gpt', "'storage.objects.list' denied");
  });

  test('to create: a save is refused, and what was there stays', async () => {
    const server = await savedThen(onlyFor(isInsert, denied('storage.objects.create')));
    const ended = await cli(['save', place.path('ckpt'), server.run, '--version', '2'], NOBODY);
    expectError(ended, 'Denied', 8, 'cannot create object', "'storage.objects.create' denied");
    expect((await cli(['latest', server.run], NOBODY)).stdout).toBe('1\n');
  });

  test('to get: a restore is refused, and nothing is left at the destination', async () => {
    const text = (denied('storage.objects.get').body as string).replace(/.*"message":"([^"]*)".*/, '$1');
    const answer = { status: 403, headers: { 'x-guploader-uploadid': 'U' }, body: text };
    const server = await savedThen(onlyFor(isRead, answer));
    const out = place.path('out-denied');
    const ended = await cli(['restore', server.run, out], NOBODY);
    expectError(ended, 'Denied', 8, 'cannot read object', "'storage.objects.get' denied");
    expect(await contentOf(out)).toEqual({});
  });

  test('to send parts: a large file is refused', async () => {
    await writeFiles(place, 'large', { 'weights.bin': Buffer.alloc(17 * 1024 * 1024, 'w') });
    const missing = "Permission 'storage.multipartUploads.create' denied on resource.";
    const server = await scriptedGcs(onlyFor(isBegin, xmlRefusal(403, 'AccessDenied', missing)));
    const ended = await cli(['save', place.path('large'), server.uri(), '--version', '1'], NOBODY);
    expectError(ended, 'Denied', 8, 'cannot begin an upload to', missing, '(AccessDenied)');
  });

  test('to delete: saving and restoring need none', async () => {
    const server = await savedThen(onlyFor(isDelete, denied('storage.objects.delete')));
    const saved = await cli(['save', place.path('ckpt'), server.run, '--version', '2'], NOBODY);
    expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
    const out = place.path('out-without-delete');
    const restored = await cli(['restore', server.run, out], NOBODY);
    expect([restored.stderr, restored.code]).toEqual([expect.any(String), 0]);
    expect(await contentOf(out)).toEqual(await contentOf(place.path('ckpt')));
  });
});

describe('buckets of another kind', () => {
  test.each([
    ['retentionPolicyNotMet', "its bucket's retention policy keeps it"],
    ['objectUnderActiveHold', 'it is under a hold'],
  ])(
    'that keep everything (%s): saving and restoring work; doctor says what cannot be removed',
    async (reason, words) => {
      const server = await savedThen(onlyFor(isDelete, refusal(403, reason)));
      const saved = await cli(['save', place.path('ckpt'), server.run, '--version', '2'], NOBODY);
      expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
      const findings = await findingsOf(server.run, NOBODY);
      expect(findings.map(({ seen }) => seen).join()).toContain(words);
    },
  );

  test('whose objects are soft-deleted: to a restore they are gone, which it says', async () => {
    const server = await savedThen(() => undefined);
    const [name = ''] = [...server.fake.objects.keys()].filter((found) => found.endsWith('/plain.txt'));
    server.fake.objects.delete(name);
    const ended = await cli(['restore', server.run, place.path('out-gone')], NOBODY);
    expectError(ended, 'Corrupt', 5, 'plain.txt');
    expect(await contentOf(place.path('out-gone'))).toEqual({});
  });

  test('that bills the requester, and no project is named', async () => {
    const script: GcsScript = ({ headers }) =>
      headers['x-goog-user-project'] === undefined
        ? refusal(
            400,
            'userProjectMissing',
            'Bucket is a requester pays bucket but no user project provided.',
          )
        : undefined;
    const server = await scriptedGcs(script);
    const ended = await cli(['list', server.uri()], NOBODY);
    expectError(ended, 'InvalidConfig', 2, 'name the project that pays with userProject=', 'requester pays');
    const saved = await cli(
      ['save', place.path('ckpt'), server.uri({ userProject: 'team-1' }), '--version', '1'],
      NOBODY,
    );
    expect(saved.code).toBe(0);
  });

  test('where uploads=compose could not remove its parts', async () => {
    await writeFiles(place, 'large', { 'weights.bin': Buffer.alloc(17 * 1024 * 1024, 'w') });
    const server = await scriptedGcs();
    server.fake.bucket = { retentionPolicy: { retentionPeriod: '60' } };
    const uri = server.uri({ uploads: 'compose' });
    const ended = await cli(['save', place.path('large'), uri, '--version', '1'], NOBODY);
    expectError(ended, 'Unsupported', 2, 'has a retention policy', 'use uploads=multipart');
  });

  test("whose objects were written with another customer's key", async () => {
    const server = await scriptedGcs();
    const env = { ...NOBODY, HOLDFAST_GCS_CUSTOMER_KEY: KEY };
    await cli(['save', place.path('ckpt'), server.uri(), '--version', '1'], env);
    expectError(
      await cli(['list', server.uri()], NOBODY),
      'InvalidConfig',
      2,
      'a HOLDFAST_GCS_CUSTOMER_KEY that differs',
    );
    expect((await cli(['latest', server.uri()], env)).stdout).toBe('1\n');
    const short = { ...NOBODY, HOLDFAST_GCS_CUSTOMER_KEY: KEY.slice(4) };
    expectError(
      await cli(['list', server.uri()], short),
      'InvalidConfig',
      2,
      'is not the base64 of 32 bytes',
    );
  });
});

describe('servers', () => {
  test('an emulator that does not run: repeated, then Unavailable', async () => {
    const env = { ...NOBODY, ...HASTY, STORAGE_EMULATOR_HOST: '127.0.0.1:1' };
    const ended = await cli(['list', 'gs://runs/gpt'], env);
    expectError(ended, 'Unavailable', 75, 'cannot list gs://runs/gpt', 'ECONNREFUSED');
  });

  test('a name that does not exist: repeated, then Unavailable', async () => {
    const uri = 'gs://runs/gpt?endpoint=http%3A%2F%2Fgcs.invalid';
    expectError(await cli(['list', uri], { ...NOBODY, ...HASTY }), 'Unavailable', 75, 'gcs.invalid');
  });

  test.each([
    ['a page', { headers: { 'content-type': 'text/html' }, body: '<html>log in</html>' }],
    ['404', { status: 404, body: '404 page not found\n' }],
    ['a redirect', { status: 302, headers: { location: 'http://127.0.0.1/login' } }],
  ])('a server that is no GCS, and answers with %s', async (_name, reply) => {
    const server = await scriptedGcs(() => reply);
    const ended = await cli(['list', server.uri()], NOBODY);
    expectError(ended, 'InvalidConfig', 2, 'does not lead to a server that speaks GCS', 'check endpoint=');
  });

  test('one that stumbles now and then is asked again', async () => {
    const server = await scriptedGcs((_request, _fake, index) =>
      index % 3 === 0
        ? refusal(503, 'backendError')
        : index % 7 === 0
          ? refusal(429, 'rateLimitExceeded')
          : undefined,
    );
    const env = { ...NOBODY, ...HASTY };
    const saved = await cli(['save', place.path('ckpt'), server.uri(), '--version', '1'], env);
    expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
    const out = place.path('out-stumbled');
    expect((await cli(['restore', server.uri(), out], env)).code).toBe(0);
    expect(await contentOf(out)).toEqual(await contentOf(place.path('ckpt')));
  });
});
