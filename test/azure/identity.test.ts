/**
 * Requests with tokens of the machine's identity. A server of this test issues them as Azure's
 * hosts do.
 */

import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { errorOf, startScriptedServer } from '../scripted/scripted-server.ts';
import { azureInMemory, refusal } from './scripted-azure.ts';

const BYTES = Buffer.from('abc');
const NO_KEYS = {};

/**
 * The library caches the identity service and its token for the life of the process, so this file
 * keeps one server.
 */
let host: Awaited<ReturnType<typeof startScriptedServer>>;
let hasIdentity = false;

beforeAll(async () => {
  host = await startScriptedServer(() => {
    if (!hasIdentity) return { status: 400, body: '{"error":"invalid_request"}' };
    const token = {
      access_token: 'canary-token',
      expires_on: Math.floor(Date.now() / 1000) + 24 * 3600,
      resource: 'https://storage.azure.com',
      token_type: 'Bearer',
    };
    return { status: 200, headers: { 'content-type': 'application/json' }, body: JSON.stringify(token) };
  });
  vi.stubEnv('IDENTITY_ENDPOINT', `${host.endpoint}/msi/token`);
  vi.stubEnv('IDENTITY_HEADER', 'canary-of-the-host');
  vi.stubEnv('AZURE_TOKEN_CREDENTIALS', 'ManagedIdentityCredential');
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await host.stop();
});

describe('the identity of the machine', () => {
  test('a machine without one: Denied, nothing sent to the store, and no secret told', async () => {
    const server = await azureInMemory();
    const store = await server.open({}, NO_KEYS);
    const error = await errorOf(store.head('a'));
    expect(error).toMatchObject({
      code: 'Denied',
      message: expect.stringContaining('no credentials were found ('),
    });
    expect(server.requests).toHaveLength(0);
    expect(error.message + inspect(error, { depth: 3 })).not.toContain('canary-of-the-host');
  });

  test('is asked once, for storage, and its token goes with each request', async () => {
    hasIdentity = true;
    const server = await azureInMemory();
    const store = await server.open({}, NO_KEYS);
    const before = host.requests.length;
    await Promise.all(['a', 'b', 'c'].map((key) => store.create(key, BYTES)));
    expect(host.requests).toHaveLength(before + 1);
    expect(host.requests.at(-1)?.query.get('resource')).toMatch(/^https:\/\/storage\.azure\.com\/?$/);
    const sent = new Set(server.requests.map(({ headers }) => headers['authorization']));
    expect(sent).toEqual(new Set(['Bearer canary-token']));
  });

  test('a copy takes its token along', async () => {
    const server = await azureInMemory();
    const store = await server.open({}, NO_KEYS);
    await store.create('a', BYTES);
    await store.copyFrom?.(store, 'a', 'b', { sizeBytes: 3 });
    const { headers } = server.requests.at(-1) ?? { headers: {} };
    expect(headers).toMatchObject({
      'x-ms-copy-source': `${server.endpoint}/runs/gpt/a`,
      'x-ms-copy-source-authorization': 'Bearer canary-token',
    });
  });

  test('a token that is refused and cannot be had anew is Denied, and no secret is told', async () => {
    const server = await azureInMemory({}, () => refusal(401, 'InvalidAuthenticationInfo'));
    const store = await server.open({}, NO_KEYS);
    const error = await errorOf(store.create('a', BYTES));
    // The library returns the same token again.
    expect([error.code, server.requests.length]).toEqual(['Denied', 1]);
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('canary');
  });

  test('a role that lacks an action: the message names it', async () => {
    const server = await azureInMemory({}, () => refusal(403, 'AuthorizationPermissionMismatch'));
    const store = await server.open({}, NO_KEYS);
    expect((await errorOf(store.create('a', BYTES))).message).toContain(
      'no role of the credentials has blobs/write',
    );
  });
});
