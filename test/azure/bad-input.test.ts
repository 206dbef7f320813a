/**
 * Errors on Azure as a user sees them. Each has its own message, code and exit status, and no
 * output contains a secret.
 */

import {
  BlobSASPermissions,
  ContainerSASPermissions,
  generateBlobSASQueryParameters,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
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
  SLOW_CLOCK,
  withQuery,
} from '../e2e/s3-process.ts';
import type { Reply, SeenRequest } from '../scripted/scripted-server.ts';
import { describeOnAzurite } from '../servers/describe-on-azure.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { azureInMemory, KEYS, refusal } from './scripted-azure.ts';

// Each test starts several processes, and other tests may keep the machine busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let place: Place;

beforeAll(async () => {
  place = await newPlace();
  await writeFiles(place, 'ckpt', FILES);
});
afterAll(async () => {
  await place.remove();
  expectNoSecretTold();
});

const HOUR_MS = 3_600_000;
/** Prevents a search for credentials outside this machine. */
const NO_IDENTITY: Env = { AZURE_TOKEN_CREDENTIALS: 'EnvironmentCredential' };

describeOnAzurite('bad input on Azurite', {}, (azurite) => {
  let bucket: TestBucket;

  beforeAll(async () => {
    bucket = await azurite().newBucket();
    keepSecret(azurite().key);
    const saved = await cli(['save', place.path('ckpt'), bucket.uri, '--version', '1'], bucket.env);
    expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
  });

  /** A SAS of the container with these permissions. */
  function sasEnv(permissions: string, expiresMs = Date.now() + HOUR_MS): Env {
    const { account, key } = azurite();
    const token = generateBlobSASQueryParameters(
      {
        containerName: bucket.bucket,
        permissions: ContainerSASPermissions.parse(permissions),
        startsOn: new Date(expiresMs - 2 * HOUR_MS),
        expiresOn: new Date(expiresMs),
        version: '2021-12-02',
      },
      new StorageSharedKeyCredential(account, key),
    ).toString();
    keepSecret(token);
    keepSecret(encodeURIComponent(new URLSearchParams(token).get('sig') ?? ''));
    keepSecret(new URLSearchParams(token).get('sig') ?? '');
    return { AZURE_STORAGE_SAS_TOKEN: token };
  }

  describe('names', () => {
    test.each(['list', 'save'])('%s: a missing container, which is not made', async (command) => {
      const uri = bucket.uri.replace(bucket.bucket, 'no-such-container');
      const args = command === 'save' ? ['save', place.path('ckpt'), uri, '--version', '1'] : [command, uri];
      const ended = await cli(args, bucket.env);
      expectError(ended, 'NotFound', 6, '/no-such-container/run names a container that does not exist');
    });

    test('another account than that of the key', async () => {
      const uri = bucket.uri.replace(azurite().account, 'otheraccount');
      const ended = await cli(['list', uri], bucket.env);
      expectError(ended, 'InvalidConfig', 2, 'names another account than AZURE_STORAGE_ACCOUNT');
    });

    test('an account that the server does not know', async () => {
      const uri = bucket.uri.replaceAll(azurite().account, 'otheraccount');
      const ended = await cli(['list', uri], { AZURE_STORAGE_KEY: azurite().key });
      expectError(ended, 'NotFound', 6, 'names an account or container that does not exist');
    });

    test('a server whose name does not exist', async () => {
      const uri = withQuery(bucket.uri, { endpoint: 'https://blobs.invalid' });
      const ended = await cli(['list', uri], { ...bucket.env, ...HASTY });
      expect(ended.stderr).toContain('the name of the server cannot be resolved');
      expect(ended.stderr).toContain('check endpoint=');
      expect(ended.code).toBe(75);
    });

    test('an emulator that does not run', async () => {
      const uri = withQuery(bucket.uri, { endpoint: `http://127.0.0.1:9/${azurite().account}` });
      const ended = await cli(['list', uri], { ...bucket.env, ...HASTY });
      expect(ended.stderr).toContain('ECONNREFUSED');
      expect(ended.code).toBe(75);
    });

    test('a SAS in the URI is refused and not repeated', async () => {
      const { AZURE_STORAGE_SAS_TOKEN: token } = sasEnv('racwdl');
      const ended = await cli(['list', `${bucket.uri}&${token}`], bucket.env);
      expectError(ended, 'InvalidConfig', 2, 'contains a SAS', 'AZURE_STORAGE_SAS_TOKEN');
    });
  });

  describe('credentials', () => {
    test('none at all: says what can be done', async () => {
      const ended = await cli(['list', bucket.uri], NO_IDENTITY);
      expectError(ended, 'Denied', 8, 'no credentials were found', 'set AZURE_STORAGE_KEY', 'az login');
    });

    test('a wrong key', async () => {
      const wrong = Buffer.from('wrong canary of a key, long enough').toString('base64');
      keepSecret(wrong);
      const ended = await cli(['list', bucket.uri], { ...bucket.env, AZURE_STORAGE_KEY: wrong });
      expectError(ended, 'Denied', 8, 'the key does not belong to the account');
    });

    test('a SAS that has expired', async () => {
      const ended = await cli(['list', bucket.uri], sasEnv('racwdl', Date.now() - HOUR_MS));
      expectError(ended, 'Denied', 8, 'cannot list az://');
      expect(ended.stderr).toContain('the SAS has expired: it was valid until ');
    });

    test('a SAS of one blob', async () => {
      const { account, key } = azurite();
      const token = generateBlobSASQueryParameters(
        {
          containerName: bucket.bucket,
          blobName: 'run/other',
          permissions: BlobSASPermissions.parse('racwd'),
          expiresOn: new Date(Date.now() + HOUR_MS),
        },
        new StorageSharedKeyCredential(account, key),
      ).toString();
      const ended = await cli(['list', bucket.uri], { AZURE_STORAGE_SAS_TOKEN: token });
      expectError(ended, 'Denied', 8, 'cannot list az://', 'the SAS ');
    });

    test('a clock that is 20 minutes slow is put right by that of the store', async () => {
      const ended = await cli(['verify', bucket.uri], { ...bucket.env, ...SLOW_CLOCK });
      expect([ended.stderr, ended.code]).toEqual([expect.any(String), 0]);
    });
  });

  describe('a SAS', () => {
    test('that may not list: nothing works, and it says which letter is missing', async () => {
      const ended = await cli(['list', bucket.uri], sasEnv('racwd'));
      expectError(ended, 'Denied', 8, 'cannot list az://', 'the SAS lacks l (list)');
    });

    test('that may not create or write: a save is refused, and what was there stays', async () => {
      const env = sasEnv('rdl');
      const ended = await cli(['save', place.path('ckpt'), bucket.uri, '--version', '2'], env);
      expectError(ended, 'Denied', 8, 'cannot create object', 'the SAS lacks c (create)');
      expect((await cli(['latest', bucket.uri], env)).stdout).toBe('1\n');
    });

    test('that may not read: a restore is refused, and nothing is left at the destination', async () => {
      const out = place.path('out-denied');
      const ended = await cli(['restore', bucket.uri, out], sasEnv('acwdl'));
      expectError(ended, 'Denied', 8, 'cannot read object', 'the SAS lacks r (read)');
      expect(await contentOf(out)).toEqual({});
    });

    test('that may not delete: saving and restoring need none; doctor names it', async () => {
      const env = sasEnv('racwl');
      const fresh = bucket.uri.replace('/run?', '/without-delete?');
      const saved = await cli(['save', place.path('ckpt'), fresh, '--version', '1'], env);
      expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
      const failed = (await findingsOf(fresh, env)).filter(({ status }) => status === 'failed');
      expect(failed.map(({ id, code }) => [id, code])).toContainEqual(['may-delete', 'Denied']);
      expect(failed.map(({ seen }) => seen).join()).toMatch(/d \(delete\)/);
    });

    test('as the manual asks for is enough for all of it; to look takes rl', async () => {
      const fresh = bucket.uri.replace('/run?', '/least?');
      const env = sasEnv('rcwdl');
      const saved = await cli(['save', place.path('ckpt'), fresh, '--version', '1'], env);
      expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
      const findings = await findingsOf(fresh, env);
      expect(findings.filter(({ status }) => status === 'failed')).toEqual([]);
      const out = place.path('out-least');
      const restored = await cli(['restore', fresh, out], sasEnv('rl'));
      expect([restored.stderr, restored.code]).toEqual([expect.any(String), 0]);
      expect(await contentOf(out)).toEqual(await contentOf(place.path('ckpt')));
    });
  });
});

describe('what no emulator can be made to do', () => {
  /**
   * A run with one checkpoint. From then on `reply` answers, and requests without a reply take the
   * normal path.
   */
  async function withCheckpoint(reply: (request: SeenRequest) => Reply | undefined): Promise<string> {
    let isSaved = false;
    const server = await azureInMemory(
      {},
      (request, pass) => (isSaved ? reply(request) : undefined) ?? pass(),
    );
    const uri = server.uri();
    const saved = await cli(['save', place.path('ckpt'), uri, '--version', '1'], KEYS);
    expect([saved.stderr, saved.code]).toEqual([expect.any(String), 0]);
    isSaved = true;
    return uri;
  }

  test.each<[string, string, number, string[], Reply]>([
    [
      'an account that is disabled',
      'Denied',
      8,
      ['the account is disabled'],
      refusal(403, 'AccountIsDisabled'),
    ],
    [
      'an address that the firewall refuses',
      'Denied',
      8,
      ['the firewall of the account refuses this machine'],
      refusal(403, 'AuthorizationFailure'),
    ],
    [
      'keys that are switched off',
      'Denied',
      8,
      ['write auth=identity'],
      refusal(403, 'KeyBasedAuthenticationNotPermitted'),
    ],
    [
      'a container that is being deleted',
      'NotFound',
      6,
      ['a container that is being deleted'],
      refusal(409, 'ContainerBeingDeleted'),
    ],
    [
      'a login page',
      'InvalidConfig',
      2,
      ['does not lead to a server that speaks Azure Blob Storage'],
      { status: 200, body: '<html>log in</html>' },
    ],
  ])('%s', async (_name, code, exit, words, reply) => {
    const server = await azureInMemory({}, () => reply);
    expectError(await cli(['list', server.uri()], KEYS), code, exit, ...words);
  });

  const isData = ({ method, path }: SeenRequest) =>
    method === 'GET' && path.includes('/version_1/') && path.includes('.bin');

  test('objects in the archive: Unsupported, with what to do', async () => {
    const uri = await withCheckpoint((request) =>
      isData(request) ? refusal(409, 'BlobArchived') : undefined,
    );
    const ended = await cli(['restore', uri, place.path('out-archive')], KEYS);
    expectError(ended, 'Unsupported', 2, 'moved to the archive tier');
  });

  test('objects that are deleted softly are gone: damage, by their names', async () => {
    const uri = await withCheckpoint((request) =>
      isData(request) ? refusal(404, 'BlobNotFound') : undefined,
    );
    const ended = await cli(['restore', uri, place.path('out-deleted')], KEYS);
    expect(ended.stderr).toMatch(/does not exist|missing/);
    expect([5, 6]).toContain(ended.code);
  });

  test('throttling that ends: the save succeeds', async () => {
    let refused = 0;
    const server = await azureInMemory({}, ({ method }, pass) => {
      if (method !== 'PUT' || refused >= 3) return pass();
      refused += 1;
      return refusal(503, 'ServerBusy', { headers: { 'retry-after': '1' } });
    });
    const ended = await cli(['save', place.path('ckpt'), server.uri(), '--version', '1'], {
      ...KEYS,
      ...HASTY,
    });
    expect([ended.stderr, ended.code]).toEqual([expect.any(String), 0]);
    expect(refused).toBe(3);
  });

  test('throttling for ever: exit 75 in bounded time, and what the store says is told', async () => {
    const server = await azureInMemory({}, () =>
      refusal(503, 'ServerBusy', { message: 'The server is busy.' }),
    );
    const ended = await cli(['list', server.uri()], { ...KEYS, ...HASTY });
    expect(ended.stderr).toMatch(/^trying again: .*The server is busy\. \(ServerBusy\)/);
    expect(ended.code).toBe(75);
  });
});
