/** Every way in which a provider's secrets come from the environment, each with a separate mark. */

import { generateKeyPairSync } from 'node:crypto';
import { type Env, fileOf } from './in-process.ts';
import type { Marks } from './marks.ts';

export interface Given {
  readonly name: string;
  readonly env: Env;
  readonly settings?: Readonly<Record<string, string>> | undefined;
}

export interface Place {
  readonly title: string;
  uri(endpoint: string, settings?: Readonly<Record<string, string>>): string;
  /** Credentials that are accepted and sent. */
  wellFormed(marks: Marks, endpoint: string): Promise<Given[]>;
  /** Credentials that are rejected, or lead nowhere. */
  malformed(marks: Marks, endpoint: string): Promise<Given[]>;
}

const given = (name: string, env: Env, settings?: Readonly<Record<string, string>>): Given => ({
  name,
  env,
  settings,
});

/** Leaves out empty settings. */
const queryOf = (settings: Readonly<Record<string, string>>): string =>
  String(new URLSearchParams(Object.entries(settings).filter(([, value]) => value !== '')));

/**
 * Values of the proxy variables, which are the same for every store. Both spellings of the name are
 * used in turn.
 */
function proxies(marks: Marks, env: Env): Given[] {
  const mark = (what: string) => marks.make(`proxy ${what}`);
  const values = [
    `user:${mark('no scheme')}@127.0.0.1:9`,
    mark('nothing else'),
    `socks5://user:${mark('socks')}@127.0.0.1:9`,
    `http://user:${mark('port')}@127.0.0.1:99999`,
    `http://user:${mark('slash')}/x@127.0.0.1:9`,
    `http://127.0.0.1:9/?${mark('query')}`,
    `http://user:${mark('percent')}%zz@127.0.0.1:9`,
    `http://user:${mark('refused')}@127.0.0.1:9`,
  ];
  return values.map((value, index) => {
    const name = index % 2 === 0 ? 'HTTP_PROXY' : 'http_proxy';
    return given(`${name}=${value}`, { ...env, [name]: value });
  });
}

/** Uses the server itself as the proxy: it answers every request. */
function throughProxy(marks: Marks, env: Env, endpoint: string): Given {
  const url = new URL(endpoint);
  url.username = 'user';
  url.password = marks.make('proxy that is taken');
  return given('a proxy', { ...env, HTTP_PROXY: url.href, NO_PROXY: marks.make('no proxy') });
}

const AWS_PAIR: Env = { AWS_ACCESS_KEY_ID: 'AKIDOFTHETEST', AWS_SECRET_ACCESS_KEY: 'x' };

const s3: Place = {
  title: 'S3',
  uri: (endpoint, settings) => `s3://bucket/run?${queryOf({ endpoint, region: 'us-east-1', ...settings })}`,
  async wellFormed(marks, endpoint) {
    const keys = {
      AWS_ACCESS_KEY_ID: 'AKIDOFTHETEST',
      AWS_SECRET_ACCESS_KEY: marks.make('s3 secret key'),
      AWS_SESSION_TOKEN: marks.make('s3 session token'),
    };
    const profile = `[default]\naws_access_key_id = AKIDOFTHETEST\naws_secret_access_key = ${marks.make('s3 key of a profile')}\naws_session_token = ${marks.make('s3 token of a profile')}\n`;
    const process = `[default]\ncredential_process = echo '{"Version":1,"AccessKeyId":"AKIDOFTHETEST","SecretAccessKey":"${marks.make('s3 key of a process')}","SessionToken":"${marks.make('s3 token of a process')}"}'\n`;
    return [
      given('keys', keys),
      given('a key of the customer', { ...keys, HOLDFAST_S3_CUSTOMER_KEY: marks.makeKey('s3 customer key') }),
      given('a profile', { AWS_SHARED_CREDENTIALS_FILE: await fileOf(profile) }),
      given('a process', { AWS_CONFIG_FILE: await fileOf(process) }),
      throughProxy(marks, keys, endpoint),
    ];
  },
  async malformed(marks, endpoint) {
    const mark = (what: string) => marks.make(`s3 malformed ${what}`);
    const profile = async (text: string) => ({
      AWS_CONFIG_FILE: await fileOf(text),
      AWS_SHARED_CREDENTIALS_FILE: '/nowhere',
    });
    const none = { AWS_CONFIG_FILE: '/nowhere', AWS_SHARED_CREDENTIALS_FILE: '/nowhere' };
    return [
      given('half a pair', { ...none, AWS_SECRET_ACCESS_KEY: mark('half') }),
      given('a token that is no header', { ...AWS_PAIR, AWS_SESSION_TOKEN: `${mark('header')}\u0001` }),
      given('a key of the customer', { ...AWS_PAIR, HOLDFAST_S3_CUSTOMER_KEY: mark('customer') }),
      given('a file without form', await profile(`${mark('file')}\n`)),
      given(
        'a profile without a key',
        await profile(`[default]\naws_secret_access_key = ${mark('half profile')}\n`),
      ),
      given(
        'a process that fails',
        await profile(
          `[default]\ncredential_process = sh -c "echo ${mark('stdout')}; echo ${mark('stderr')} >&2; exit 1"\n`,
        ),
      ),
      given(
        'a process that tells nothing',
        await profile(`[default]\ncredential_process = echo ${mark('not JSON')}\n`),
      ),
      given(
        'a process that does not exist',
        await profile(
          `[default]\ncredential_process = /nowhere/${mark('program')} --password ${mark('argument')}\n`,
        ),
      ),
      given(
        'a login',
        await profile(
          `[default]\nsso_start_url = https://${mark('sso')}.example\nsso_region = us-east-1\nsso_account_id = 1\nsso_role_name = r\n`,
        ),
      ),
      given('a container', {
        ...none,
        AWS_CONTAINER_CREDENTIALS_FULL_URI: `${endpoint}/x?${mark('container URI')}`,
        AWS_CONTAINER_AUTHORIZATION_TOKEN: mark('container token'),
      }),
      given('a container elsewhere', {
        ...none,
        AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://user:${mark('container password')}@store.example/x`,
      }),
      given('a container nowhere', {
        ...none,
        AWS_CONTAINER_CREDENTIALS_FULL_URI: `${mark('container no URI')}`,
      }),
      given('a web identity', {
        ...none,
        AWS_WEB_IDENTITY_TOKEN_FILE: await fileOf(mark('web identity')),
        AWS_ROLE_ARN: 'arn:aws:iam::1:role/r',
        AWS_ENDPOINT_URL_STS: endpoint,
      }),
      ...endpoints(mark).map(([name, value]) =>
        given(name, { ...AWS_PAIR, AWS_ENDPOINT_URL_S3: value }, { endpoint: '' }),
      ),
      ...proxies(marks, AWS_PAIR),
    ];
  },
};

/** Endpoints that contain a secret. */
function endpoints(mark: (what: string) => string): [string, string][] {
  return [
    ['an endpoint with a password', `http://user:${mark('endpoint password')}@127.0.0.1:9`],
    ['an endpoint with a query', `http://127.0.0.1:9/?sig=${mark('endpoint query')}`],
    ['an endpoint with a fragment', `http://127.0.0.1:9/#${mark('endpoint hash')}`],
    ['an endpoint without a scheme', `user:${mark('endpoint scheme')}@127.0.0.1:9`],
    ['an endpoint with a "/" in its password', `http://user:1/${mark('endpoint slash')}@127.0.0.1:9`],
  ];
}

const gcs: Place = {
  title: 'GCS',
  uri: (endpoint, settings) => `gs://bucket/run?${queryOf({ endpoint, ...settings })}`,
  async wellFormed(marks, endpoint) {
    return [
      given('a key of the customer', { HOLDFAST_GCS_CUSTOMER_KEY: marks.makeKey('gcs customer key') }),
      throughProxy(marks, {}, endpoint),
    ];
  },
  async malformed(marks, endpoint) {
    const mark = (what: string) => marks.make(`gcs malformed ${what}`);
    const auth = { auth: 'true' };
    const file = async (content: object | string) => ({
      GOOGLE_APPLICATION_CREDENTIALS: await fileOf(
        typeof content === 'string' ? content : JSON.stringify(content),
      ),
    });
    const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
      type: 'pkcs8',
      format: 'pem',
    });
    marks.keep(
      'gcs private key',
      String(key)
        .replace(/-----[^-]*-----/g, '')
        .replaceAll('\n', ''),
    );
    const account = { type: 'service_account', client_email: 'a@b', private_key_id: mark('key id') };
    const external = {
      type: 'external_account',
      audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q',
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      token_url: `${endpoint}/v1/token`,
    };
    return [
      given('a key of the customer', { HOLDFAST_GCS_CUSTOMER_KEY: mark('customer') }),
      given('no JSON', await file(mark('no JSON')), auth),
      given('half JSON', await file(`{"private_key": "${mark('half JSON')}"`), auth),
      given('JSON of another kind', await file({ type: mark('type'), client_secret: mark('other') }), auth),
      given('a private key that is none', await file({ ...account, private_key: mark('private key') }), auth),
      given(
        'a private key that nobody knows',
        await file({ ...account, private_key: key, token_uri: `${endpoint}/token` }),
        auth,
      ),
      given(
        'a user',
        await file({
          type: 'authorized_user',
          client_id: 'c',
          client_secret: mark('client secret'),
          refresh_token: mark('refresh token'),
          token_uri: endpoint,
        }),
        { ...auth },
      ),
      given(
        'a workload',
        await file({ ...external, credential_source: { file: await fileOf(mark('subject')) } }),
        auth,
      ),
      given(
        'a workload with a password',
        await file({
          ...external,
          client_id: 'c',
          client_secret: mark('workload secret'),
          token_url: `http://user:${mark('token url')}@127.0.0.1:9/x`,
          credential_source: { file: await fileOf('x') },
        }),
        auth,
      ),
      given(
        'a workload that asks',
        await file({
          ...external,
          credential_source: {
            url: `${endpoint}/?${mark('source url')}`,
            headers: { authorization: mark('source header') },
          },
        }),
        auth,
      ),
      ...endpoints(mark).map(([name, value]) =>
        given(name, { STORAGE_EMULATOR_HOST: value }, { endpoint: '' }),
      ),
      ...proxies(marks, {}),
    ];
  },
};

const azure: Place = {
  title: 'Azure',
  uri: (endpoint, settings) =>
    `az://account/container/run?${queryOf({ endpoint: `${endpoint}/account`, ...settings })}`,
  async wellFormed(marks, endpoint) {
    const key = { AZURE_STORAGE_KEY: marks.makeKey('azure key') };
    const sas = `sv=2024-11-04&sp=racwdl&sr=c&sig=${encodeURIComponent(marks.makeKey('azure sas'))}`;
    return [
      given('a key', key),
      given('a key of the customer', {
        ...key,
        HOLDFAST_AZURE_CUSTOMER_KEY: marks.makeKey('azure customer key'),
      }),
      given('a SAS', { AZURE_STORAGE_SAS_TOKEN: `?${sas}` }),
      given('a connection string', {
        AZURE_STORAGE_CONNECTION_STRING: `AccountName=account;AccountKey=${marks.makeKey('azure connection key')}`,
      }),
      given('a connection string with a SAS', {
        AZURE_STORAGE_CONNECTION_STRING: `AccountName=account;SharedAccessSignature=${sas}`,
      }),
      throughProxy(marks, key, endpoint),
    ];
  },
  async malformed(marks, endpoint) {
    const mark = (what: string) => marks.make(`azure malformed ${what}`);
    const connection = (text: string) => ({ AZURE_STORAGE_CONNECTION_STRING: text });
    const key = marks.makeKey('azure key that is left');
    return [
      given('a key', { AZURE_STORAGE_KEY: `${mark('key')}!` }),
      given('a key of another account', { AZURE_STORAGE_ACCOUNT: 'other', AZURE_STORAGE_KEY: key }),
      given('a SAS', { AZURE_STORAGE_SAS_TOKEN: mark('sas') }),
      given('a SAS with blanks', { AZURE_STORAGE_SAS_TOKEN: `sv=1&sig=${mark('sas blanks')} x` }),
      given('a key of the customer', {
        AZURE_STORAGE_KEY: key,
        HOLDFAST_AZURE_CUSTOMER_KEY: mark('customer'),
      }),
      given('no connection string', connection(mark('connection'))),
      given('half a connection string', connection(`AccountName=account;${mark('half connection')}`)),
      given(
        'a connection string with a key that is none',
        connection(`AccountName=account;AccountKey=${mark('connection key')}!`),
      ),
      given(
        'a connection string with a SAS that is none',
        connection(`AccountName=account;SharedAccessSignature=${mark('connection sas')}`),
      ),
      given(
        'a connection string of another account',
        connection(`AccountName=${mark('account')};AccountKey=${key}`),
      ),
      ...endpoints(mark).map(([name, value]) =>
        given(
          `a connection string: ${name}`,
          connection(`AccountName=account;AccountKey=${key};BlobEndpoint=${value}`),
          { endpoint: '' },
        ),
      ),
      given('a client', {
        AZURE_TENANT_ID: 'tenant',
        AZURE_CLIENT_ID: 'client',
        AZURE_CLIENT_SECRET: mark('client secret'),
        AZURE_AUTHORITY_HOST: 'https://127.0.0.1:9',
      }),
      given('a certificate', {
        AZURE_TENANT_ID: 'tenant',
        AZURE_CLIENT_ID: 'client',
        AZURE_CLIENT_CERTIFICATE_PATH: await fileOf(mark('certificate')),
        AZURE_CLIENT_CERTIFICATE_PASSWORD: mark('certificate password'),
      }),
      given('a managed identity', {
        AZURE_TOKEN_CREDENTIALS: 'ManagedIdentityCredential',
        IDENTITY_ENDPOINT: `${endpoint}/msi?${mark('identity endpoint')}`,
        IDENTITY_HEADER: mark('identity header'),
      }),
      ...proxies(marks, { AZURE_STORAGE_KEY: key }),
    ];
  },
};

export const PLACES: readonly Place[] = [s3, gcs, azure];
