/** Tokens that Google's library finds in a file or on the machine, and how a store uses them. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  type Answer,
  allPages,
  errorOf,
  type Reply,
  type Script,
  scriptedServer,
} from '../scripted/scripted-server.ts';
import { json, refusal } from './fake-gcs.ts';
import { scriptedGcs } from './scripted-gcs.ts';

const AUTH = { auth: 'true' };
const HOUR_S = 3600;

beforeEach(() => {
  // Hide this machine's credentials: its files, and the server that knows its service account.
  vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', undefined);
  vi.stubEnv('CLOUDSDK_CONFIG', '/nowhere');
  vi.stubEnv('METADATA_SERVER_DETECTION', 'none');
});
afterEach(() => vi.unstubAllEnvs());

/** Writes a file of default credentials. */
async function useFile(content: string): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-gcs-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const path = join(directory, 'credentials.json');
  await writeFile(path, content);
  vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', path);
}

/** A workload identity whose token comes from a server in this process. */
async function useTokenServer(script: Script) {
  const server = await scriptedServer(script);
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-gcs-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const subject = join(directory, 'subject');
  await writeFile(subject, 'subject-token');
  await useFile(
    JSON.stringify({
      type: 'external_account',
      audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q',
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      token_url: `${server.endpoint}/v1/token`,
      credential_source: { file: subject },
    }),
  );
  return server;
}

/** Tokens `token-0`, `token-1`, … */
const tokens =
  (lifeS = HOUR_S): Script =>
  (_request, index) =>
    token(`token-${index}`, lifeS);

function token(value: string, lifeS = HOUR_S): Answer {
  return json({
    access_token: value,
    expires_in: lifeS,
    token_type: 'Bearer',
    issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
  });
}

/** A store whose server accepts only these tokens. */
async function storeThatTakes(isTaken: (authorization: string | undefined) => boolean) {
  const server = await scriptedGcs(({ headers }) =>
    isTaken(headers.authorization) ? undefined : refusal(401, 'authError', 'Invalid Credentials'),
  );
  return { server, store: await server.open(AUTH) };
}

describe('a token', () => {
  test('is had once, and goes with every request', async () => {
    const tokenServer = await useTokenServer(tokens());
    const { server, store } = await storeThatTakes((authorization) => authorization === 'Bearer token-0');
    await Promise.all([store.create('a', Buffer.from('x')), store.create('b', Buffer.from('x'))]);
    await allPages(store);
    expect(tokenServer.requests).toHaveLength(1);
    expect(tokenServer.requests[0]?.body.toString()).toContain('devstorage.read_write');
    expect(server.requests).toHaveLength(3);
  });

  test('that is refused is fetched anew once, and the request sent again', async () => {
    const tokenServer = await useTokenServer(tokens());
    const { server, store } = await storeThatTakes((authorization) => authorization === 'Bearer token-1');
    await store.create('a', Buffer.from('x'));
    await store.create('b', Buffer.from('x'));
    expect([tokenServer.requests.length, server.requests.length]).toEqual([2, 3]);
  });

  test('with the end of a line cannot be sent: InvalidConfig, and its text is not told', async () => {
    await useTokenServer(() => token('canary-token\r'));
    const { server, store } = await storeThatTakes(() => true);
    const error = await errorOf(store.create('a', Buffer.from('x')));
    expect(error).toMatchObject({ code: 'InvalidConfig', status: 'permanent' });
    expect(error.message).toContain('token of the credentials contains a control character');
    expect(inspect(error)).not.toContain('canary-token');
    expect(server.requests).toHaveLength(0);
  });

  test('that is refused again ends with Denied, in the words of the store', async () => {
    const tokenServer = await useTokenServer(tokens());
    const { server, store } = await storeThatTakes(() => false);
    const error = await errorOf(store.create('a', Buffer.from('x')));
    expect([error.code, error.status]).toEqual(['Denied', 'permanent']);
    expect(error.message).toContain('Invalid Credentials');
    expect([tokenServer.requests.length, server.requests.length]).toEqual([2, 2]);
  });

  test('with five minutes left is fetched anew', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const tokenServer = await useTokenServer(tokens());
    const { server, store } = await storeThatTakes(() => true);
    await allPages(store);
    vi.setSystemTime(Date.now() + (HOUR_S - 301) * 1000);
    await allPages(store);
    vi.setSystemTime(Date.now() + 2000);
    await allPages(store);
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer token-0',
      'Bearer token-0',
      'Bearer token-1',
    ]);
    expect(tokenServer.requests).toHaveLength(2);
  });

  test('the machine has one: its service account', async () => {
    const metadata = await scriptedServer(({ path }) => {
      const headers = { 'metadata-flavor': 'Google', 'content-type': 'application/json' };
      if (!path.endsWith('/service-accounts/default/token')) return { headers, body: '{}' };
      return {
        headers,
        body: JSON.stringify({ access_token: 'of-machine', expires_in: HOUR_S, token_type: 'Bearer' }),
      };
    });
    vi.stubEnv('METADATA_SERVER_DETECTION', 'assume-present');
    vi.stubEnv('GCE_METADATA_HOST', `127.0.0.1:${metadata.port}`);
    const { store } = await storeThatTakes((authorization) => authorization === 'Bearer of-machine');
    await allPages(store);
  });
});

describe('without a token', () => {
  test('no credentials anywhere: says where they are looked for, and sends nothing', async () => {
    const { server, store } = await storeThatTakes(() => true);
    const error = await errorOf(store.head('a'));
    expect([error.code, error.status]).toEqual(['Denied', 'permanent']);
    expect(error.message).toContain(
      'cannot look at object a in gs://runs/gpt: no credentials were found; run `gcloud auth',
    );
    expect(server.requests).toHaveLength(0);
  });

  test.each<[string, string]>([
    ['no JSON', 'secret-text'],
    [
      'a key that is none',
      JSON.stringify({ type: 'service_account', client_email: 'a@b', private_key: 'secret-text' }),
    ],
    ['no key', JSON.stringify({ type: 'service_account', client_email: 'a@b' })],
  ])('a file with %s: InvalidConfig, and none of it is told', async (_name, content) => {
    await useFile(content);
    const { store } = await storeThatTakes(() => true);
    const error = await errorOf(store.head('a'));
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).not.toContain('secret-text');
  });

  test('a file that is not there: InvalidConfig, and the variable that names it', async () => {
    vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', '/nowhere/credentials.json');
    const { store } = await storeThatTakes(() => true);
    const error = await errorOf(store.head('a'));
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toMatch(/ENOENT.*GOOGLE_APPLICATION_CREDENTIALS/);
  });

  test.each<[string, Reply, string]>([
    ['refuses', json({ error: 'invalid_grant', error_description: 'revoked' }, 400), 'Denied'],
    [
      'does not know the workload',
      json({ error: 'invalid_target', error_description: 'no such pool' }, 400),
      'Denied',
    ],
  ])('a token server that %s: told by its code', async (_name, reply, code) => {
    await useTokenServer(() => reply);
    const { store } = await storeThatTakes(() => true);
    const error = await errorOf(store.head('a'));
    expect(error.code).toBe(code);
    expect(error.message).toMatch(/invalid_grant|invalid_target/);
    expect(JSON.stringify([error.message, error.context])).not.toContain('subject-token');
  });

  test('a token server that is away: temporary', async () => {
    await useTokenServer(() => 'reset');
    const { store } = await storeThatTakes(() => true);
    expect(await errorOf(store.head('a'))).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  }, 40_000);

  test('a stopped request does not wait for a token server that says nothing', async () => {
    const stop = new AbortController();
    await useTokenServer(() => {
      stop.abort();
      return 'silence';
    });
    const { store } = await storeThatTakes(() => true);
    expect((await errorOf(store.head('a', { signal: stop.signal }))).code).toBe('Aborted');
  });
});

test('a server that asks for no token gets none', async () => {
  const tokenServer = await useTokenServer(tokens());
  const server = await scriptedGcs();
  await allPages(await server.open());
  expect(server.requests[0]?.headers).not.toHaveProperty('authorization');
  expect(tokenServer.requests).toHaveLength(0);
});

test('one that asks although no token was configured: says how to send a token', async () => {
  const server = await scriptedGcs(() => refusal(401, 'required', 'Anonymous caller does not have access'));
  const error = await errorOf(allPages(await server.open()));
  expect(error.code).toBe('Denied');
  expect(error.message).toContain('auth=true');
});
