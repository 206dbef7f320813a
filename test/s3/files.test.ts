/** What a store takes from the files of AWS tools, and from the variables that override them. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ObjectStore } from '@holdfast/core/contract';
import { openS3Store } from '@holdfast/store-s3';
import { expect, onTestFinished, test, vi } from 'vitest';
import { allPages, errorOf } from '../scripted/scripted-server.ts';
import { KEYS, listing, type SeenRequest, scriptedS3 } from './scripted-s3.ts';
import { signedRegion } from './signature-fault.ts';

interface Files {
  readonly config?: string;
  readonly credentials?: string;
}

/** A store on a server of this test, whose URI names no region, and the requests to it. */
async function storeWith(files: Files, env: Readonly<Record<string, string>> = KEYS, settings = '') {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-s3-'));
  const { config = '', credentials = '' } = files;
  await writeFile(join(directory, 'config'), config);
  await writeFile(join(directory, 'credentials'), credentials);
  vi.stubEnv('AWS_CONFIG_FILE', join(directory, 'config'));
  vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(directory, 'credentials'));
  vi.stubEnv('AWS_PROFILE', undefined);
  const server = await scriptedS3(() => listing());
  const store = await openS3Store(`s3://runs/gpt?endpoint=${server.endpoint}${settings}`, env);
  onTestFinished(async () => {
    vi.unstubAllEnvs();
    await store.close();
    await rm(directory, { recursive: true });
  });
  return { store, requests: server.requests };
}

async function requestOf({ store, requests }: { store: ObjectStore; requests: readonly SeenRequest[] }) {
  await allPages(store);
  const [request] = requests;
  const [, keyId] = /Credential=([^/]+)/.exec(request?.headers['authorization'] ?? '') ?? [];
  return { fault: request?.signatureFault, keyId, region: signedRegion(request as SeenRequest) };
}

const OF_X = 'aws_access_key_id = X\naws_secret_access_key = secret-of-X\n';
const KEY = KEYS.AWS_ACCESS_KEY_ID;

test.each<[string, Files, Readonly<Record<string, string>>, string, string, string]>([
  ['no file', {}, KEYS, '', KEY, 'us-east-1'],
  ['the default profile', { config: '[default]\nregion = eu-west-1\n' }, KEYS, '', KEY, 'eu-west-1'],
  [
    'both files: that of the keys decides',
    { config: '[default]\nregion = a\n', credentials: '[default]\nregion = b\n' },
    KEYS,
    '',
    KEY,
    'b',
  ],
  [
    'a variable, which overrides the file',
    { config: '[default]\nregion = a\n' },
    { ...KEYS, AWS_REGION: 'c' },
    '',
    KEY,
    'c',
  ],
  [
    'the keys and the region of a profile that a variable names',
    { config: '[profile x]\nregion = eu-west-1\n', credentials: `[x]\n${OF_X}` },
    { AWS_PROFILE: 'x' },
    '',
    'X',
    'eu-west-1',
  ],
  [
    'those of a profile that the URI names, in spite of keys in the environment',
    { config: `[profile x]\nregion = eu-west-1\n${OF_X}` },
    KEYS,
    '&profile=x',
    'X',
    'eu-west-1',
  ],
  ['keys of the default profile', { credentials: `[default]\n${OF_X}` }, {}, '', 'X', 'us-east-1'],
])('keys and region with %s', async (_name, files, env, settings, keyId, region) => {
  const found = await requestOf(await storeWith(files, env, settings));
  expect(found).toEqual({ fault: undefined, keyId, region });
});

test('a FIPS endpoint of AWS and another endpoint: InvalidConfig, and nothing is sent', async () => {
  const ofProfile = { config: '[default]\nuse_fips_endpoint = true\n' };
  for (const [files, env] of [
    [ofProfile, {}],
    [{}, { AWS_USE_FIPS_ENDPOINT: 'true' }],
  ] as const) {
    const { store, requests } = await storeWith(files, { ...KEYS, ...env });
    const error = await errorOf(allPages(store));
    expect([error.code, error.message]).toEqual([
      'InvalidConfig',
      expect.stringContaining('AWS_USE_FIPS_ENDPOINT'),
    ]);
    expect(requests).toEqual([]);
  }
  const { store } = await storeWith(ofProfile, { ...KEYS, AWS_USE_FIPS_ENDPOINT: 'false' });
  expect(await allPages(store)).toHaveLength(1);
});

test('a flag that is neither true nor false is InvalidConfig, and named', async () => {
  const { store } = await storeWith({ config: '[default]\nuse_dualstack_endpoint = yes\n' });
  expect((await errorOf(allPages(store))).message).toContain('use_dualstack_endpoint of the profile');
  const refused = errorOf(openS3Store('s3://runs', { AWS_USE_DUALSTACK_ENDPOINT: 'canary' }));
  expect((await refused).message).toBe(
    'AWS_USE_DUALSTACK_ENDPOINT has a value that is not accepted; it is true or false',
  );
});

test('an endpoint in a profile is ignored by all requests', async () => {
  const { store, requests } = await storeWith({ config: '[default]\nendpoint_url = http://127.0.0.1:1\n' });
  await allPages(store);
  await store.deleteMany(['a']).catch(() => undefined);
  expect(requests).toHaveLength(2);
});
