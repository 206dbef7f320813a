import { Proxies } from '@holdfast/cloud-http';
import { isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { parseS3Config } from './config.ts';

function refusalOf(uri: string, env: Record<string, string> = {}): string {
  try {
    parseS3Config(uri, env);
  } catch (error) {
    if (isCheckpointError(error, 'InvalidConfig')) return error.message;
    throw error;
  }
  throw new Error(`${uri} was accepted`);
}

describe('the URI', () => {
  it('names bucket and prefix; what it leaves open has a default', () => {
    expect(parseS3Config('s3://runs/gpt/large')).toEqual({
      uri: 's3://runs/gpt/large',
      bucket: 'runs',
      root: 'gpt/large/',
      pathStyle: false,
      credentialsKind: 'any',
      bucketKey: false,
      requestPayer: false,
      checksum: 'full',
      payload: 'auto',
      proxies: expect.any(Proxies),
    });
  });

  it.each([
    ['s3://runs', ''],
    ['s3://runs/', ''],
    ['s3://runs/a/', 'a/'],
    ['s3://runs/a//b', 'a//b/'],
    ['s3://runs//a', '/a/'],
    ['s3://runs/a%20b+c%3F%23%25', 'a b+c?#%/'],
    ['s3://runs/ü', 'ü/'],
    ['s3://runs/a?region=eu-west-1', 'a/'],
    ['s3://runs?region=eu-west-1', ''],
  ])('%s has the root %j', (uri, root) => {
    expect(parseS3Config(uri).root).toBe(root);
  });

  it('an endpoint means path style, unless the URI says otherwise', () => {
    const endpoint = encodeURIComponent('http://127.0.0.1:9000/');
    expect(parseS3Config(`s3://runs?endpoint=${endpoint}`)).toMatchObject({
      endpoint: 'http://127.0.0.1:9000',
      pathStyle: true,
    });
    expect(parseS3Config(`s3://runs?endpoint=${endpoint}&pathStyle=false`).pathStyle).toBe(false);
  });

  it('takes every setting', () => {
    const query =
      'region=eu-west-1&profile=train&ca=/etc/ca.pem&sse=aws:kms&kmsKeyId=alias/a&bucketKey=true' +
      '&storageClass=STANDARD_IA&expectedOwner=123456789012&requestPayer=true&checksum=parts&payload=signed';
    expect(parseS3Config(`s3://runs/x?${query}`)).toMatchObject({
      region: 'eu-west-1',
      profile: 'train',
      ca: '/etc/ca.pem',
      encryption: 'aws:kms',
      kmsKeyId: 'alias/a',
      bucketKey: true,
      storageClass: 'STANDARD_IA',
      expectedOwner: '123456789012',
      requestPayer: true,
      checksum: 'parts',
      payload: 'signed',
    });
  });

  it.each([
    ['s3:/runs', 'is not of the form s3://bucket/prefix'],
    ['s3://', 'names no bucket'],
    ['s3://AKIA:hunter2@runs/x', 'contains credentials'],
    ['s3://ru', 'an invalid bucket name'],
    ['s3://runs_/x', 'an invalid bucket name'],
    ['s3://train--use1-az4--x-s3/run', 'is a directory bucket'],
    ['s3://runs/x#y', 'has a fragment'],
    ['s3://runs/%zz', 'has a "%" that is not followed by'],
    ['s3://runs/a%0Ab', 'has a control character'],
    [`s3://runs/${'x'.repeat(513)}`, 'has a prefix of more than 512 bytes'],
    ['s3://runs?regoin=x', 'has an unknown setting'],
    ['s3://runs?constructor=x', 'has an unknown setting'],
    ['s3://runs?region=a&region=b', 'has the query key "region" twice'],
    [
      's3://runs?region=',
      'has region= with a value that is not accepted; region is a region such as eu-west-1',
    ],
    ['s3://runs?region=eu west', 'has region= with a value that is not accepted'],
    [
      's3://runs?endpoint=localhost:9000',
      'has endpoint= with a value that is not accepted; endpoint is the base URL',
    ],
    ['s3://runs?endpoint=ftp://x', 'has endpoint= with a value that is not accepted'],
    ['s3://runs?endpoint=http://me:hunter2@x', 'has endpoint= with a value that is not accepted'],
    [
      's3://runs?pathStyle=yes',
      'has pathStyle= with a value that is not accepted; pathStyle is true or false',
    ],
    ['s3://runs?ca=ca.pem', 'has ca= with a value that is not accepted; ca is the absolute path'],
    [
      's3://runs?sse=kms',
      'has sse= with a value that is not accepted; sse is AES256, aws:kms or aws:kms:dsse',
    ],
    [
      's3://runs?kmsKeyId=x',
      'has kmsKeyId= with a value that is not accepted; kmsKeyId is id or ARN of a KMS key; needs sse=',
    ],
    ['s3://runs?bucketKey=true&sse=AES256', 'has bucketKey= with'],
    ['s3://runs?storageClass=standard', 'has storageClass= with a value that is not accepted'],
    ['s3://runs?storageClass=DEEP_ARCHIVE', 'whose objects cannot be read at once'],
    [
      's3://runs?expectedOwner=123',
      'has expectedOwner= with a value that is not accepted; expectedOwner is the 12 digits',
    ],
    [
      's3://runs?checksum=md5',
      'has checksum= with a value that is not accepted; checksum is full, parts or none',
    ],
    [
      's3://runs?payload=no',
      'has payload= with a value that is not accepted; payload is auto, signed or unsigned',
    ],
  ])('%s is InvalidConfig: it %s', (uri, words) => {
    const message = refusalOf(uri);
    expect(message).toContain(words);
    expect(message).toContain('accepted: s3://bucket/prefix');
    expect(message).not.toContain('hunter2');
  });
});

describe('the environment', () => {
  const env = {
    AWS_ACCESS_KEY_ID: 'id',
    AWS_SECRET_ACCESS_KEY: 'secret',
    AWS_SESSION_TOKEN: 'token',
    AWS_REGION: 'eu-west-1',
    AWS_ENDPOINT_URL_S3: 'http://localhost:9000',
    AWS_CA_BUNDLE: '/etc/bundle.pem',
    AWS_PROFILE: 'other',
    https_proxy: 'http://proxy:3128',
    NO_PROXY: 'localhost',
  };

  it('fills what the URI leaves open', () => {
    const config = parseS3Config('s3://runs', env);
    expect(config.credentials?.secretAccessKey.reveal()).toBe('secret');
    expect(config.credentials?.sessionToken?.reveal()).toBe('token');
    expect(config).toMatchObject({
      credentials: { accessKeyId: 'id' },
      region: 'eu-west-1',
      endpoint: 'http://localhost:9000',
      pathStyle: true,
      caBundle: '/etc/bundle.pem',
      profile: 'other',
    });
    const server = { protocol: 'https:', hostname: 's3.example', port: 443 } as const;
    expect(config.proxies.to(server)?.variable).toBe('https_proxy');
    expect(config.proxies.to({ ...server, hostname: 'localhost' })).toBeUndefined();
  });

  it('never overrides the URI; a profile there outdoes the keys of the environment', () => {
    const config = parseS3Config('s3://runs?region=us-west-2&profile=mine&endpoint=https://s3.example', env);
    expect(config).toMatchObject({ region: 'us-west-2', profile: 'mine', endpoint: 'https://s3.example' });
    expect(config.credentials).toBeUndefined();
  });

  it('half a pair of keys counts as absent', () => {
    expect(parseS3Config('s3://runs', { AWS_ACCESS_KEY_ID: 'id' }).credentials).toBeUndefined();
  });

  it('the key of SSE-C comes from HOLDFAST_S3_CUSTOMER_KEY alone, and its value is in no message', () => {
    const key = Buffer.alloc(32, 7).toString('base64');
    expect(parseS3Config('s3://runs', { HOLDFAST_S3_CUSTOMER_KEY: key }).customerKey?.reveal()).toBe(key);
    expect(refusalOf('s3://runs', { HOLDFAST_S3_CUSTOMER_KEY: 'c2hvcnQ=' })).toBe(
      'HOLDFAST_S3_CUSTOMER_KEY is not the base64 of 32 bytes',
    );
    expect(refusalOf('s3://runs?sse=AES256', { HOLDFAST_S3_CUSTOMER_KEY: key })).not.toContain(key);
  });

  it.each([
    ['http://store.example', false],
    ['http://10.0.0.1:9000', false],
    ['https://store.example', true],
    ['http://127.0.0.1:9000', true],
    ['http://[::1]:9000', true],
    ['http://localhost:9000', true],
  ])(
    'the key of SSE-C with the endpoint %s: sent is %s, for it must not travel in the clear',
    (endpoint, isSent) => {
      const key = Buffer.alloc(32, 7).toString('base64');
      const env = { HOLDFAST_S3_CUSTOMER_KEY: key };
      const uri = `s3://runs?endpoint=${endpoint}`;
      if (isSent) {
        expect(parseS3Config(uri, env).customerKey?.reveal()).toBe(key);
      } else {
        expect(refusalOf(uri, env)).toContain('would send HOLDFAST_S3_CUSTOMER_KEY unencrypted');
        expect(refusalOf(uri, env)).not.toContain(key);
      }
    },
  );
});
