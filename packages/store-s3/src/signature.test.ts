import { createHash, createHmac } from 'node:crypto';
import { HttpRequest } from '@smithy/core/protocols';
import { SignatureV4 } from '@smithy/signature-v4';
import { describe, expect, it } from 'vitest';
import { type AwsKeys, pathText, queryText, Signer, secretsOf, sha256Hex } from './signature.ts';

const KEYS: AwsKeys = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
};
const EMPTY = sha256Hex('');

interface Case {
  readonly method?: string;
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly keys?: AwsKeys;
  readonly region?: string;
  readonly date?: Date;
}

function ours(signer: Signer, { method = 'GET', key = 'a', query = {}, headers = {}, ...rest }: Case) {
  const { keys = KEYS, region = 'us-east-1', date = new Date('2026-11-23T01:02:03.456Z') } = rest;
  const all = { host: 'h', 'x-amz-content-sha256': EMPTY, ...headers };
  const request = {
    method,
    path: `/${pathText(key)}`,
    query: queryText(Object.entries(query)),
    headers: all,
  };
  return signer.sign(request, { keys, region, date });
}

/** Computes one digest as AWS's signer wants it. */
class Sha256 {
  readonly #hash;
  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret as string);
  }
  update(data: Uint8Array): void {
    this.#hash.update(data);
  }
  digest(): Promise<Uint8Array> {
    return Promise.resolve(this.#hash.digest());
  }
  reset(): void {
    throw new Error('it is used once');
  }
}

async function theirs({ method = 'GET', key = 'a', query = {}, headers = {}, ...rest }: Case) {
  const { keys = KEYS, region = 'us-east-1', date = new Date('2026-11-23T01:02:03.456Z') } = rest;
  const signer = new SignatureV4({
    credentials: { ...keys, sessionToken: keys.sessionToken as string },
    region,
    service: 's3',
    sha256: Sha256,
    uriEscapePath: false,
    applyChecksum: true,
  });
  const path = `/${key
    .split('/')
    .map((part) => encodeURIComponent(part).replace(/[!'()*]/g, (sign) => `%${hex(sign)}`))
    .join('/')}`;
  const all = { host: 'h', 'x-amz-content-sha256': EMPTY, ...headers };
  const request = new HttpRequest({ method, path, query: { ...query }, headers: all });
  return (await signer.sign(request, { signingDate: date })).headers;
}

function hex(sign: string): string {
  return sign.charCodeAt(0).toString(16).toUpperCase();
}

const PRINTABLE = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index));

describe("as AWS's own signer", () => {
  it.each<[string, Case]>([
    ['a plain request', {}],
    ['each method', { method: 'HEAD' }],
    ['a PUT', { method: 'PUT' }],
    ['a POST without a key', { method: 'POST', key: '', query: { delete: '' } }],
    ['a DELETE', { method: 'DELETE', query: { uploadId: 'a/b+c=d&e' } }],
    ['every character of a key', { key: PRINTABLE.join('') }],
    ['a key of other letters', { key: 'ü/日本/\u{1f511}/a//b' }],
    ['every character of a query', { query: { prefix: PRINTABLE.join('') } }],
    [
      'a query whose order differs from that of its names',
      { query: { 'upload-id-marker': 'b', uploads: '', prefix: 'ü', 'key-marker': 'a b', B: '1', a: '2' } },
    ],
    ['headers with blanks', { headers: { range: ' bytes=0-1 ', 'x-amz-meta-a': 'a   b\t c' } }],
    [
      'headers of every kind',
      {
        method: 'PUT',
        headers: {
          'content-length': '3',
          'content-type': 'application/xml',
          'if-none-match': '*',
          'x-amz-checksum-crc32c': 'AAAAAA==',
          'x-amz-server-side-encryption-customer-key-md5': 'x',
        },
      },
    ],
    ['an unsigned payload', { method: 'PUT', headers: { 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD' } }],
    ['a host with a port', { headers: { host: 'bucket.example:9000' } }],
    ['a session token', { keys: { ...KEYS, sessionToken: 'token/+=' } }],
    ['a secret of other letters', { keys: { accessKeyId: 'id', secretAccessKey: 'geheim ü/+=' } }],
    ['another region', { region: 'cn-north-1' }],
    ['the last moment of a year', { date: new Date('2027-12-31T23:59:59.999Z') }],
  ])('%s', async (_name, given) => {
    const { authorization, 'x-amz-date': time, 'x-amz-security-token': token } = await theirs(given);
    expect(ours(new Signer(), given)).toEqual({
      authorization,
      'x-amz-date': time,
      ...(token !== undefined && { 'x-amz-security-token': token }),
    });
  });

  it('one signer, whatever it has signed before', async () => {
    const signer = new Signer();
    const other = { accessKeyId: 'b', secretAccessKey: 'other' };
    const changes: Case[] = [
      {},
      { keys: other },
      { keys: other, region: 'eu-west-1' },
      { keys: other, region: 'eu-west-1', date: new Date('2026-11-24T00:00:00Z') },
      {},
    ];
    for (const given of changes)
      expect(ours(signer, given)['authorization']).toBe((await theirs(given))['authorization']);
  });
});

/** https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html */
describe('the examples that AWS publishes', () => {
  const published = {
    date: new Date('2013-05-24T00:00:00Z'),
    headers: { host: 'examplebucket.s3.amazonaws.com' },
  };
  const body = sha256Hex('Welcome to Amazon S3.');
  it.each<[string, Case, string]>([
    [
      'GET of an object',
      { key: 'test.txt', headers: { range: 'bytes=0-9' } },
      'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
    ],
    [
      'PUT of an object',
      {
        method: 'PUT',
        key: 'test$file.text',
        headers: {
          date: 'Fri, 24 May 2013 00:00:00 GMT',
          'x-amz-storage-class': 'REDUCED_REDUNDANCY',
          'x-amz-content-sha256': body,
        },
      },
      '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
    ],
    [
      'GET of the lifecycle',
      { key: '', query: { lifecycle: '' } },
      'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
    ],
    [
      'a listing',
      { key: '', query: { 'max-keys': '2', prefix: 'J' } },
      '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
    ],
  ])('%s', (_name, given, signature) => {
    const request = { ...given, ...published, headers: { ...published.headers, ...given.headers } };
    expect(ours(new Signer(), request)['authorization']).toContain(`Signature=${signature}`);
  });
});

it('the secrets of a request are its token, the key of the customer and the signature', () => {
  const headers = { 'x-amz-server-side-encryption-customer-key': 'key', host: 'h' };
  const signed = ours(new Signer(), { headers, keys: { ...KEYS, sessionToken: 'token' } });
  const [, signature] = signed['authorization']?.split('Signature=') ?? [];
  expect(secretsOf({ ...headers, ...signed })).toEqual(['token', 'key', signature]);
  expect(secretsOf({ host: 'h' })).toEqual([]);
});
