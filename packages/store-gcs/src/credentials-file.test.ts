import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { GoogleAuth } from 'google-auth-library';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { tokenForm } from './credentials-file.ts';

const SCOPE = 'https://www.googleapis.com/auth/devstorage.read_write';
const pemOf = (key: { export(options: { type: 'pkcs8'; format: 'pem' }): string | Buffer }) =>
  String(key.export({ type: 'pkcs8', format: 'pem' }));
const RSA = pemOf(generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey);
const EC = pemOf(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey);

const ACCOUNT = {
  type: 'service_account',
  project_id: 'ours',
  private_key_id: 'k',
  private_key: RSA,
  client_email: 'trainer@ours.iam.gserviceaccount.com',
  token_uri: 'https://elsewhere.example/token',
};
const USER = {
  type: 'authorized_user',
  client_id: 'c d',
  client_secret: 'secret+/=',
  refresh_token: 'refresh',
  quota_project_id: 'ours',
};

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-gcs-'));
  vi.useFakeTimers({ toFake: ['Date'], now: 1_795_255_200_987 });
  for (const name of ['GOOGLE_APPLICATION_CREDENTIALS', 'google_application_credentials', 'CLOUDSDK_CONFIG'])
    vi.stubEnv(name, undefined);
  vi.stubEnv('HOME', directory);
  vi.stubEnv('METADATA_SERVER_DETECTION', 'none');
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true });
});

function write(path: string, content: object | string): string {
  const whole = join(directory, path);
  mkdirSync(dirname(whole), { recursive: true });
  writeFileSync(whole, typeof content === 'string' ? content : JSON.stringify(content));
  return whole;
}

/** What Google's library asks its token server for. */
async function askedByLibrary(): Promise<string[]> {
  const asked: string[] = [];
  const auth = new GoogleAuth({ scopes: SCOPE, projectId: 'unused' });
  const client = await auth.getClient();
  client.transporter = {
    defaults: {},
    request: ({ url, data }: { url: string; data: URLSearchParams }) => {
      asked.push(url, data.toString());
      return Promise.resolve({ data: { access_token: 'token', expires_in: 3600 } });
    },
  } as never;
  await client.getAccessToken();
  return asked;
}

describe("a file is understood as by Google's library", () => {
  it.each<[string, object]>([
    ['the key of a service account', ACCOUNT],
    ['one that names its cloud', { ...ACCOUNT, universe_domain: 'googleapis.com' }],
    ['the login of a user', USER],
  ])('%s', async (_name, content) => {
    vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', write('key.json', content));
    const form = await tokenForm(SCOPE);
    expect(['https://oauth2.googleapis.com/token', form?.body]).toEqual(await askedByLibrary());
  });

  it.each([
    ['the home directory', '.config/gcloud', {}],
    ["gcloud's own directory", 'elsewhere', { CLOUDSDK_CONFIG: 'elsewhere' }],
  ])('in %s', async (_name, place, env) => {
    write(`${place}/application_default_credentials.json`, USER);
    for (const [name, path] of Object.entries(env)) vi.stubEnv(name, join(directory, path));
    expect((await tokenForm(SCOPE))?.body).toBe((await askedByLibrary())[1]);
  });

  it('its secrets are known, so that no answer can show them', async () => {
    vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', write('user.json', USER));
    expect((await tokenForm(SCOPE))?.secrets).toEqual(['secret+/=', 'refresh']);
    vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', write('key.json', ACCOUNT));
    const { body = '', secrets = [] } = (await tokenForm(SCOPE)) ?? {};
    expect(secrets).toEqual([new URLSearchParams(body).get('assertion')]);
  });
});

describe('all else is left to the library', () => {
  it.each<[string, object | string]>([
    ['another kind', { type: 'external_account' }],
    ['an impersonation', { type: 'impersonated_service_account', source_credentials: USER }],
    ['another cloud', { ...ACCOUNT, universe_domain: 'cloud.example' }],
    ['a user of another cloud', { ...USER, universe_domain: 'cloud.example' }],
    ['no JSON', 'secret text'],
    ['no object', 'null'],
    ['an account without a key', { ...ACCOUNT, private_key: undefined }],
    ['an account without a name', { ...ACCOUNT, client_email: '' }],
    ['half a key', { ...ACCOUNT, private_key: RSA.slice(0, 400) }],
    ['a key of another algorithm', { ...ACCOUNT, private_key: EC }],
    ['a user without a login', { ...USER, refresh_token: '' }],
    ['a user whose secret is a number', { ...USER, client_secret: 1 }],
  ])('%s', async (_name, content) => {
    vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', write('key.json', content));
    expect(await tokenForm(SCOPE)).toBeUndefined();
  });

  it('a file that is not there, and none at all', async () => {
    expect(await tokenForm(SCOPE)).toBeUndefined();
    write('.config/gcloud/application_default_credentials.json', USER);
    vi.stubEnv('google_application_credentials', '/nowhere');
    expect(await tokenForm(SCOPE)).toBeUndefined();
    vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', '/nowhere');
    expect(await tokenForm(SCOPE)).toBeUndefined();
    vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', undefined);
    vi.stubEnv('google_application_credentials', undefined);
    vi.stubEnv('HOME', undefined);
    expect(await tokenForm(SCOPE)).toBeUndefined();
  });
});
