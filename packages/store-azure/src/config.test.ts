import { Proxies } from '@holdfast/cloud-http';
import { isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { type AzureConfig, parseAzureConfig } from './config.ts';

const KEY = Buffer.from('a key of an account').toString('base64');
const OTHER_KEY = Buffer.from('the key of a connection').toString('base64');
const SAS = 'sv=2024-11-04&sp=racwdl&sr=c&se=2030-01-01T00:00:00Z&sig=canary%2Bcanary%3D';
const CUSTOMER_KEY = Buffer.alloc(32, 7).toString('base64');

function refusalOf(uri: string, env: Record<string, string> = {}): string {
  try {
    parseAzureConfig(uri, env);
  } catch (error) {
    if (isCheckpointError(error, 'InvalidConfig')) return error.message;
    throw error;
  }
  throw new Error(`${uri} was accepted`);
}

/** Kind of the credentials, and the secret. */
function revealed({ credentials }: AzureConfig): string[] {
  if (credentials.kind === 'identity') return ['identity'];
  return [credentials.kind, (credentials.kind === 'key' ? credentials.key : credentials.token).reveal()];
}

describe('the URI', () => {
  it('names account, container and prefix; what it leaves open has a default', () => {
    expect(parseAzureConfig('az://acct/runs/gpt/large')).toEqual({
      uri: 'az://acct/runs/gpt/large',
      account: 'acct',
      container: 'runs',
      root: 'gpt/large/',
      endpoint: 'https://acct.blob.core.windows.net',
      credentials: { kind: 'identity', identity: { kind: 'machine' } },
      contentMd5: false,
      proxies: expect.any(Proxies),
    });
  });

  it.each([
    ['az://acct/runs', ''],
    ['az://acct/runs/', ''],
    ['az://acct/runs/a/', 'a/'],
    ['az://acct/runs/a//b', 'a//b/'],
    ['az://acct/runs/a%20b+c%3F%23%25', 'a b+c?#%/'],
    ['az://acct/runs/ü', 'ü/'],
    ['az://acct/runs/a%5Cb', 'a[\u{10fffd}b/'],
    ['az://acct/runs/a./b', 'a..\u{10fffd}/b/'],
    ['az://acct/runs/a?tier=Cool', 'a/'],
  ])('%s has the root %j', (uri, root) => {
    expect(parseAzureConfig(uri).root).toBe(root);
  });

  it('takes every setting', () => {
    const endpoint = encodeURIComponent('https://acct.privatelink.example/base/');
    const query = `endpoint=${endpoint}&tier=Cold&encryptionScope=scope-1&contentMd5=true&ca=/etc/ca.pem&auth=identity`;
    expect(parseAzureConfig(`az://acct/runs/x?${query}`, { AZURE_STORAGE_KEY: KEY })).toMatchObject({
      endpoint: 'https://acct.privatelink.example/base',
      tier: 'Cold',
      encryptionScope: 'scope-1',
      contentMd5: true,
      ca: '/etc/ca.pem',
      credentials: { kind: 'identity', identity: { kind: 'machine' } },
    });
  });

  it('bodies go with their MD5 where nothing else protects them', () => {
    const md5At = (endpoint: string) =>
      parseAzureConfig(`az://acct/runs?endpoint=${encodeURIComponent(endpoint)}`, { AZURE_STORAGE_KEY: KEY })
        .contentMd5;
    expect(md5At('https://blobs.example')).toBe(false);
    expect(md5At('http://127.0.0.1:10000/acct')).toBe(false);
    expect(md5At('http://blobs.example')).toBe(true);
  });

  it.each([
    ['az:/acct', 'is not of the form az://account/container/prefix'],
    ['az://', 'names no account'],
    ['az://acct', 'names no container'],
    ['az://acct/', 'names no container'],
    ['az://acct.blob.core.windows.net/runs', 'give the host with endpoint='],
    ['az://Acct/runs', 'an invalid account name'],
    ['az://key@acct/runs', 'contains credentials'],
    ['az://acct/Runs', 'an invalid container name'],
    ['az://acct/a--b', 'an invalid container name'],
    ['az://acct/ru', 'an invalid container name'],
    ['az://acct/$web', 'an invalid container name'],
    ['az://acct/runs/../other', 'has a segment "." or ".."'],
    ['az://acct/runs/a/./b', 'has a segment "." or ".."'],
    ['az://acct/runs/x#y', 'has a fragment'],
    ['az://acct/runs/%zz', 'has a "%" that is not followed by'],
    ['az://acct/runs?colour=red', 'has an unknown setting'],
    ['az://acct/runs?tier=Cool&tier=Hot', 'has the query key "tier" twice'],
    [
      'az://acct/runs?tier=Lukewarm',
      'has tier= with a value that is not accepted; tier is Hot, Cool or Cold',
    ],
    ['az://acct/runs?tier=Archive', 'cannot be read at once'],
    ['az://acct/runs?endpoint=blobs.example', 'endpoint is the base URL'],
    ['az://acct/runs?contentMd5=yes', 'contentMd5 is true or false'],
    ['az://acct/runs?ca=ca.pem', 'ca is the absolute path'],
    ['az://acct/runs?encryptionScope=no%20scope', 'encryptionScope is the name'],
    ['az://acct/runs?auth=key', 'neither AZURE_STORAGE_KEY nor AZURE_STORAGE_CONNECTION_STRING has a key'],
    ['az://acct/runs?auth=sas', 'neither AZURE_STORAGE_SAS_TOKEN nor AZURE_STORAGE_CONNECTION_STRING'],
  ])('%s is refused: %s', (uri, words) => {
    expect(refusalOf(uri)).toContain(words);
  });
});

describe('a SAS', () => {
  it.each([
    `az://acct/runs/x?${SAS}`,
    `az://acct/runs?tier=Cool&${SAS}`,
    `az://acct/runs?endpoint=${encodeURIComponent(`https://acct.blob.core.windows.net/?${SAS}`)}`,
    `az://acct/runs?endpoint=https://acct.blob.core.windows.net/?${SAS}`,
    `az://acct/runs/x${encodeURIComponent(`?${SAS}`)}`,
    `az://acct/runs#?${SAS}`,
    `az://acct/runs/x;${SAS}`,
    'az://acct/runs/sig=canary',
    'az://acct/runs/r,sig=canary',
    'az://acct/runs/r%3fse=2030&amp;sig=canary',
    'az://acct/runs/r%2526sig%253Dcanary',
  ])('in a URI is refused and not repeated: %#', (uri) => {
    const message = refusalOf(uri);
    expect(message).toContain('contains a SAS; remove it and set AZURE_STORAGE_SAS_TOKEN');
    expect(message).not.toContain('canary');
    expect(message).not.toContain('racwdl');
  });

  it('comes from the environment, with or without "?"', () => {
    for (const token of [SAS, `?${SAS}`])
      expect(revealed(parseAzureConfig('az://acct/runs', { AZURE_STORAGE_SAS_TOKEN: token }))).toEqual([
        'sas',
        SAS,
      ]);
  });

  it.each(['sv=2024-11-04&canary=1', 'sig=', 'sig=canary canary', 'sig=canary#', `${SAS}\u00e9`])(
    'that is invalid is refused and not repeated: %#',
    (token) => {
      const message = refusalOf('az://acct/runs', { AZURE_STORAGE_SAS_TOKEN: token });
      expect(message).toContain('the SAS in AZURE_STORAGE_SAS_TOKEN is invalid');
      expect(message).not.toContain('canary');
    },
  );

  it.each([
    ['a SAS', { AZURE_STORAGE_SAS_TOKEN: SAS }, 'the SAS'],
    ['a token', {}, 'a token'],
  ])('%s never travels in the clear', (_, env, what) => {
    const uri = 'az://acct/runs?endpoint=http://blobs.example';
    expect(refusalOf(uri, env)).toContain(`would send ${what} unencrypted`);
    const onLoopback = 'az://acct/runs?endpoint=http://127.0.0.1:10000/acct';
    expect(parseAzureConfig(onLoopback, env).endpoint).toBe('http://127.0.0.1:10000/acct');
  });
});

describe('credentials', () => {
  const connection = `DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=${OTHER_KEY};EndpointSuffix=core.chinacloudapi.cn`;
  const of = (env: Record<string, string>, settings = '') =>
    revealed(parseAzureConfig(`az://acct/runs${settings}`, env));

  it('are those of the connection string, then the key, then the SAS, then the identity', () => {
    const all = {
      AZURE_STORAGE_CONNECTION_STRING: connection,
      AZURE_STORAGE_ACCOUNT: 'acct',
      AZURE_STORAGE_KEY: KEY,
      AZURE_STORAGE_SAS_TOKEN: SAS,
    };
    expect(of(all)).toEqual(['key', OTHER_KEY]);
    expect(of({ ...all, AZURE_STORAGE_CONNECTION_STRING: '' })).toEqual(['key', KEY]);
    expect(of({ AZURE_STORAGE_ACCOUNT: 'acct', AZURE_STORAGE_SAS_TOKEN: SAS })).toEqual(['sas', SAS]);
    expect(of({})).toEqual(['identity']);
    expect(of(all, '?auth=sas')).toEqual(['sas', SAS]);
    expect(of(all, '?auth=identity')).toEqual(['identity']);
    expect(of({ ...all, AZURE_STORAGE_CONNECTION_STRING: '' }, '?auth=key')).toEqual(['key', KEY]);
  });

  it('a connection string tells the endpoint, too; the URI wins', () => {
    const env = { AZURE_STORAGE_CONNECTION_STRING: connection };
    expect(parseAzureConfig('az://acct/runs', env).endpoint).toBe('https://acct.blob.core.chinacloudapi.cn');
    expect(parseAzureConfig('az://acct/runs?endpoint=https://near.example', env).endpoint).toBe(
      'https://near.example',
    );
    const withSas = `BlobEndpoint=https://near.example/;SharedAccessSignature=${SAS}`;
    const config = parseAzureConfig('az://acct/runs', { AZURE_STORAGE_CONNECTION_STRING: withSas });
    expect([config.endpoint, ...revealed(config)]).toEqual(['https://near.example', 'sas', SAS]);
  });

  it('UseDevelopmentStorage=true is the emulator', () => {
    const env = { AZURE_STORAGE_CONNECTION_STRING: 'UseDevelopmentStorage=true' };
    expect(parseAzureConfig('az://devstoreaccount1/runs', env)).toMatchObject({
      endpoint: 'http://127.0.0.1:10000/devstoreaccount1',
      credentials: { kind: 'key' },
    });
  });

  it.each([
    [
      'of another account',
      { AZURE_STORAGE_CONNECTION_STRING: `AccountName=other;AccountKey=${KEY}` },
      'is for another account than the URI names',
    ],
    [
      'without a secret',
      { AZURE_STORAGE_CONNECTION_STRING: 'AccountName=acct' },
      'has neither an AccountKey nor',
    ],
    ['of no form', { AZURE_STORAGE_CONNECTION_STRING: 'canary' }, 'is not of the form Name=Value'],
    [
      'with a key that is none',
      { AZURE_STORAGE_CONNECTION_STRING: 'AccountName=acct;AccountKey=canary' },
      'is not base64',
    ],
    ['a key that is none', { AZURE_STORAGE_KEY: 'canary' }, 'is not base64'],
    [
      'a key of another account',
      { AZURE_STORAGE_ACCOUNT: 'other', AZURE_STORAGE_KEY: KEY },
      'names another account than AZURE_STORAGE_ACCOUNT',
    ],
  ])('%s are refused, and no secret is repeated', (_, env, words) => {
    const message = refusalOf('az://acct/runs', env as Record<string, string>);
    expect(message).toContain(words);
    expect(message).not.toContain('canary');
    expect(message).not.toContain(KEY);
  });
});

describe('a key of the customer', () => {
  const env = { AZURE_STORAGE_KEY: KEY, HOLDFAST_AZURE_CUSTOMER_KEY: CUSTOMER_KEY };

  it('is taken from the environment', () => {
    expect(parseAzureConfig('az://acct/runs', env).customerKey?.reveal()).toBe(CUSTOMER_KEY);
  });

  it('that is invalid, unencrypted, or beside an encryption scope is refused', () => {
    expect(refusalOf('az://acct/runs', { HOLDFAST_AZURE_CUSTOMER_KEY: 'canary' })).toBe(
      'HOLDFAST_AZURE_CUSTOMER_KEY is not the base64 of 32 bytes',
    );
    expect(refusalOf('az://acct/runs?encryptionScope=scope', env)).toContain('only one of the two');
    expect(refusalOf('az://acct/runs?endpoint=http://blobs.example', env)).toContain('unencrypted');
  });
});
