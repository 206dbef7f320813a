/**
 * The library without `env`: options that a URI leaves open come from the environment of the
 * process, and no request goes elsewhere.
 */

import { openCheckpointManager, openStore } from '@holdfast/stores';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { scriptedServer } from '../scripted/scripted-server.ts';

const KEY = Buffer.alloc(64, 7).toString('base64');

interface Kind {
  readonly uri: string;
  readonly variables: (endpoint: string) => Readonly<Record<string, string>>;
  /** Must match every request: its path or its signature. */
  readonly path: RegExp;
  readonly authorization: RegExp;
}

const KINDS: readonly Kind[] = [
  {
    uri: 's3://runs/gpt',
    variables: (endpoint) => ({
      AWS_ENDPOINT_URL_S3: endpoint,
      AWS_REGION: 'eu-central-9',
      AWS_ACCESS_KEY_ID: 'OURS',
      AWS_SECRET_ACCESS_KEY: 'secret',
    }),
    path: /^\/runs/,
    authorization: /Credential=OURS\/\d+\/eu-central-9\/s3/,
  },
  {
    uri: 'gs://runs/gpt',
    variables: (endpoint) => ({ STORAGE_EMULATOR_HOST: endpoint }),
    path: /^\/storage\/v1\/b\/runs/,
    authorization: /^$/,
  },
  {
    uri: 'az://ours/runs/gpt',
    variables: (endpoint) => ({
      AZURE_STORAGE_CONNECTION_STRING: `AccountName=ours;AccountKey=${KEY};BlobEndpoint=${endpoint}/ours`,
    }),
    path: /^\/ours\/runs/,
    authorization: /^SharedKey ours:/,
  },
];

afterEach(() => vi.unstubAllEnvs());

describe.each(KINDS)('$uri', ({ uri, variables, path, authorization }) => {
  /** A server that the variables of this process point to. It permanently rejects every request. */
  async function server() {
    const { endpoint, requests } = await scriptedServer(() => ({ status: 403 }));
    for (const [name, value] of Object.entries(variables(endpoint))) vi.stubEnv(name, value);
    return requests;
  }

  test('openCheckpointManager(uri)', async () => {
    const requests = await server();
    await using manager = await openCheckpointManager(uri);
    await expect(manager.list()).rejects.toThrow();
    expect(requests[0]?.path).toMatch(path);
    expect(requests[0]?.headers['authorization'] ?? '').toMatch(authorization);
  });

  test('openStore(uri)', async () => {
    const requests = await server();
    const store = await openStore(uri);
    await expect(store.head('a')).rejects.toThrow();
    await store.close();
    expect(requests[0]?.path).toMatch(path);
  });

  test('an environment that is passed is the whole of it', async () => {
    const requests = await server();
    const other = await scriptedServer(() => ({ status: 403 }));
    await using manager = await openCheckpointManager(uri, { env: variables(other.endpoint) });
    await expect(manager.list()).rejects.toThrow();
    expect([requests.length, other.requests.length > 0]).toEqual([0, true]);
  });
});
