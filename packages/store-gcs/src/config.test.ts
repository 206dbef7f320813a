import { Proxies } from '@holdfast/cloud-http';
import { isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { parseGcsConfig } from './config.ts';

const KEY = Buffer.alloc(32, 7).toString('base64');
const KMS = 'projects/p/locations/eu/keyRings/r/cryptoKeys/k';
const EMULATOR = `endpoint=${encodeURIComponent('http://127.0.0.1:4443')}`;
const PRIVATE = `endpoint=${encodeURIComponent('https://storage-pod.p.googleapis.com/')}`;

function refusalOf(uri: string, env: Record<string, string> = {}): string {
  try {
    parseGcsConfig(uri, env);
  } catch (error) {
    if (isCheckpointError(error, 'InvalidConfig')) return error.message;
    throw error;
  }
  throw new Error(`${uri} was accepted`);
}

describe('the URI', () => {
  it('names bucket and prefix; what it leaves open has a default', () => {
    expect(parseGcsConfig('gs://runs/gpt/large')).toEqual({
      uri: 'gs://runs/gpt/large',
      bucket: 'runs',
      root: 'gpt/large/',
      endpoint: 'https://storage.googleapis.com',
      auth: true,
      tokensFrom: 'the login of gcloud or the service account of the machine',
      uploads: 'multipart',
      proxies: expect.any(Proxies),
    });
  });

  it.each([
    ['gs://runs', ''],
    ['gs://runs/', ''],
    ['gs://runs/a/', 'a/'],
    ['gs://runs/a//b', 'a//b/'],
    ['gs://runs/a%20b+c%3F%23%25', 'a b+c?#%/'],
    ['gs://runs/ü?uploads=single', 'ü/'],
    ['gs://my.domain_x-1/a', 'a/'],
  ])('%s has the root %j', (uri, root) => {
    expect(parseGcsConfig(uri).root).toBe(root);
  });

  it('takes every setting', () => {
    const query = `uploads=compose&userProject=example.com:team-1&storageClass=NEARLINE&kmsKey=${KMS}&ca=/etc/ca.pem`;
    expect(parseGcsConfig(`gs://runs/x?${PRIVATE}&auth=true&${query}`)).toEqual({
      uri: 'gs://runs/x',
      bucket: 'runs',
      root: 'x/',
      endpoint: 'https://storage-pod.p.googleapis.com',
      auth: true,
      tokensFrom: 'the login of gcloud or the service account of the machine',
      uploads: 'compose',
      userProject: 'example.com:team-1',
      storageClass: 'NEARLINE',
      kmsKey: KMS,
      ca: '/etc/ca.pem',
      proxies: expect.any(Proxies),
    });
  });

  it.each([
    ['', true, 'multipart'],
    [EMULATOR, false, 'compose'],
    [`${EMULATOR}&auth=true`, true, 'multipart'],
    [`${PRIVATE}&auth=true`, true, 'multipart'],
    ['auth=false', false, 'multipart'],
    [`${EMULATOR}&uploads=single`, false, 'single'],
    [`${EMULATOR}&uploads=multipart`, false, 'multipart'],
    [`${EMULATOR}&uploads=auto`, false, 'compose'],
  ])('"%s": a token %s, uploads by %s', (query, auth, uploads) => {
    expect(parseGcsConfig(`gs://runs?${query}`.replace(/\?$/, ''))).toMatchObject({ auth, uploads });
  });

  it.each([
    ['s3://runs', 'is not of the form gs://bucket/prefix'],
    ['gs:runs', 'is not of the form gs://bucket/prefix'],
    ['gs://', 'names no bucket'],
    ['gs:///a', 'names no bucket'],
    ['gs://me:secret@runs/a', 'contains credentials'],
    ['gs://ru', 'has an invalid bucket name'],
    ['gs://Runs', 'has an invalid bucket name'],
    ['gs://runs/a#b', 'has a fragment'],
    ['gs://runs?region=eu', 'has an unknown setting'],
    ['gs://runs?auth=yes', 'has auth= with a value that is not accepted; auth is true or false'],
    [
      'gs://runs?uploads=parts',
      'has uploads= with a value that is not accepted; uploads is auto, multipart, compose or single',
    ],
    ['gs://runs?storageClass=cold', 'has storageClass= with a value that is not accepted'],
    ['gs://runs?kmsKey=mine', 'has kmsKey= with a value that is not accepted; kmsKey is a Cloud KMS key'],
    ['gs://runs?userProject=My%20Project', 'has userProject= with a value that is not accepted'],
    ['gs://runs?ca=ca.pem', 'has ca= with a value that is not accepted; ca is the absolute path'],
    ['gs://runs?endpoint=ftp://x', 'has endpoint= with a value that is not accepted'],
    ['gs://runs?endpoint=http%3A%2F%2F10.0.0.1&auth=true', 'would send its token unencrypted'],
  ])('%s is refused, and what is accepted is told', (uri, reason) => {
    expect(refusalOf(uri)).toContain(reason);
    expect(refusalOf(uri)).toContain('accepted: gs://bucket/prefix');
    expect(refusalOf(uri)).not.toContain('secret');
  });
});

describe('the environment', () => {
  it.each([
    ['localhost:4443', 'http://localhost:4443'],
    ['http://127.0.0.1:4443/', 'http://127.0.0.1:4443'],
    ['https://emulator:4443/base', 'https://emulator:4443/base'],
  ])('STORAGE_EMULATOR_HOST=%s is an endpoint that asks for no credentials', (host, endpoint) => {
    const config = parseGcsConfig('gs://runs', { STORAGE_EMULATOR_HOST: host });
    expect(config).toMatchObject({ endpoint, auth: false, uploads: 'compose' });
  });

  it('an endpoint in the URI overrides it, and an empty one counts as absent', () => {
    const env = { STORAGE_EMULATOR_HOST: 'other:1' };
    expect(parseGcsConfig(`gs://runs?${EMULATOR}`, env).endpoint).toBe('http://127.0.0.1:4443');
    expect(parseGcsConfig('gs://runs', { STORAGE_EMULATOR_HOST: '' }).auth).toBe(true);
  });

  it('tells of proxies', () => {
    const { proxies } = parseGcsConfig('gs://runs', { https_proxy: 'http://p:1', NO_PROXY: 'x' });
    const server = { protocol: 'https:', hostname: 'storage.googleapis.com', port: 443 } as const;
    expect(proxies.to(server)?.variable).toBe('https_proxy');
    expect(proxies.to({ ...server, hostname: 'x' })).toBeUndefined();
  });

  it("has the customer's key, which is 32 bytes", () => {
    expect(parseGcsConfig('gs://runs', { HOLDFAST_GCS_CUSTOMER_KEY: KEY }).customerKey?.reveal()).toBe(KEY);
    expect(refusalOf('gs://runs', { HOLDFAST_GCS_CUSTOMER_KEY: 'c2hvcnQ=' })).toBe(
      'HOLDFAST_GCS_CUSTOMER_KEY is not the base64 of 32 bytes',
    );
  });

  it("a customer's key is refused beside another key, and where it would travel in the clear", () => {
    const env = { HOLDFAST_GCS_CUSTOMER_KEY: KEY };
    expect(refusalOf(`gs://runs?kmsKey=${KMS}`, env)).toContain('only one of the two');
    expect(refusalOf('gs://runs?endpoint=http%3A%2F%2F10.0.0.1', env)).toContain('unencrypted');
    expect(parseGcsConfig(`gs://runs?${EMULATOR}`, env).customerKey?.reveal()).toBe(KEY);
  });
});
