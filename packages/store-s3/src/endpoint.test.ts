import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { S3Client } from '@aws-sdk/client-s3';
import { describe, expect, it } from 'vitest';
import { type EndpointOptions, endpointFlag, endpointOf } from './endpoint.ts';

const sdk = new S3Client({ region: 'us-east-1' });

/** Every region that the SDK's list of partitions names. */
const REGIONS = (() => {
  const ofClient = createRequire(createRequire(import.meta.url).resolve('@aws-sdk/client-s3'));
  const text = readFileSync(ofClient.resolve('@aws-sdk/core/client'), 'utf8');
  const names = text.matchAll(/"?((?:[a-z]+-)+\d|aws(?:-[a-z]+)*-global)"?: \{/g);
  return [...new Set(Array.from(names, ([, name = '']) => name))];
})();

/** URL without a '/' at its end, and the region to sign for; or `refused`. */
function outcomeOf(work: () => { url: string; region: string | undefined }): string {
  try {
    const { url, region } = work();
    return `${url.replace(/\/$/, '')} for ${region}`;
  } catch {
    return 'refused';
  }
}

function theirs({ bucket, region, endpoint, pathStyle, fips, dualStack }: EndpointOptions): string {
  return outcomeOf(() => {
    const { url, properties } = sdk.config.endpointProvider({
      Bucket: bucket,
      Region: region,
      ForcePathStyle: pathStyle,
      UseFIPS: fips,
      UseDualStack: dualStack,
      Accelerate: false,
      UseGlobalEndpoint: false,
      ...(endpoint !== undefined && { Endpoint: endpoint }),
    });
    const schemes = properties?.['authSchemes'] as { signingRegion: string }[] | undefined;
    return { url: url.href, region: schemes?.[0]?.signingRegion };
  });
}

function ours(options: EndpointOptions): string {
  return outcomeOf(() => {
    const { protocol, host, path, signingRegion } = endpointOf(options);
    return { url: new URL(`${protocol}//${host}${path}`).href, region: signingRegion };
  });
}

const BOTH = [false, true];
const FORMS = BOTH.flatMap((pathStyle) =>
  BOTH.flatMap((fips) => BOTH.map((dualStack) => ({ pathStyle, fips, dualStack }))),
);
const PLAIN = { bucket: 'runs', region: 'eu-west-1', pathStyle: false, fips: false, dualStack: false };

describe("as the SDK's own rules", () => {
  it('in every region that the SDK knows, in each form', () => {
    expect(REGIONS.length).toBeGreaterThan(40);
    for (const region of [...REGIONS, 'us-east-9', 'xx-new-1', 'us-iso-new-1', 'cn-new-1'])
      for (const form of FORMS) {
        const options = { ...PLAIN, ...form, region };
        expect([region, form, ours(options)]).toEqual([region, form, theirs(options)]);
      }
  });

  const BUCKETS = [
    'runs',
    'my-bucket',
    'my.bucket',
    'abc.def',
    'Upper',
    'a_b',
    '192.168.1.1',
    'abc.d',
    'a..b',
  ];
  const ENDPOINTS = [
    undefined,
    'http://minio',
    'http://minio:9000/base',
    'https://minio:9000/base/',
    'https://minio:443',
    'http://127.0.0.1:9000',
    'https://10.0.0.1',
  ];
  it('for every form of a bucket and of an endpoint', () => {
    for (const bucket of BUCKETS)
      for (const endpoint of ENDPOINTS)
        for (const form of FORMS) {
          const options = { ...PLAIN, ...form, bucket, endpoint };
          // The SDK puts the bucket before the address, which names no host.
          if (bucket === 'abc.def' && endpoint === 'http://127.0.0.1:9000' && !form.pathStyle) continue;
          expect([bucket, endpoint, form, ours(options)]).toEqual([bucket, endpoint, form, theirs(options)]);
        }
  });

  it('a region that is no part of a host name is refused', () => {
    for (const region of ['', 'eu west', 'eu.west', 'evil.example/', '-a', 'a-', 'x'.repeat(64)]) {
      expect([region, ours({ ...PLAIN, region })]).toEqual([region, 'refused']);
      expect([region, theirs({ ...PLAIN, region })]).toEqual([region, 'refused']);
    }
  });
});

it('an address is no name that a bucket with dots could stand before', () => {
  const options = { ...PLAIN, bucket: 'abc.def', endpoint: 'http://127.0.0.1:9000' };
  expect(ours(options)).toBe('http://127.0.0.1:9000/abc.def for eu-west-1');
});

it('an IPv6 address is kept, and its brackets are only in the header', () => {
  const { hostname, host, path, port } = endpointOf({
    ...PLAIN,
    endpoint: 'http://[::1]:9000',
    pathStyle: true,
  });
  expect([hostname, host, path, port]).toEqual(['::1', '[::1]:9000', '/runs', 9000]);
});

it.each([
  ['a region of another domain', { region: 'evil.example/' }, 'the region is not a name such as eu-west-1'],
  ['FIPS in China', { region: 'cn-north-1', fips: true }, 'no FIPS endpoint of S3 in the region cn-north-1'],
  ['FIPS elsewhere', { endpoint: 'https://minio', fips: true }, 'AWS_USE_FIPS_ENDPOINT'],
  ['dual stack elsewhere', { endpoint: 'https://minio', dualStack: true }, 'AWS_USE_DUALSTACK_ENDPOINT'],
])('%s is InvalidConfig, and says why', (_name, change, words) => {
  expect(() => endpointOf({ ...PLAIN, ...change })).toThrow(
    expect.objectContaining({ code: 'InvalidConfig', message: expect.stringContaining(words) }),
  );
});

it('a flag is true or false; anything else is InvalidConfig', () => {
  expect([undefined, '', 'true', 'false'].map((value) => endpointFlag('X', value))).toEqual([
    undefined,
    undefined,
    true,
    false,
  ]);
  expect(() => endpointFlag('AWS_USE_FIPS_ENDPOINT', 'yes')).toThrow(
    'AWS_USE_FIPS_ENDPOINT has a value that is not accepted; it is true or false',
  );
});
