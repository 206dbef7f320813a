import { describe, expect, it } from 'vitest';
import { type Destination, goesThroughProxy } from './proxy.ts';

const S3: Destination = { protocol: 'https:', hostname: 's3.eu-west-1.amazonaws.com', port: 443 };
const PROXY = { HTTPS_PROXY: 'http://proxy:3128' };

describe('goesThroughProxy', () => {
  it('asks the variable of the protocol', () => {
    expect(goesThroughProxy(S3, PROXY)).toBe(true);
    expect(goesThroughProxy(S3, { HTTP_PROXY: 'http://proxy:3128' })).toBe(false);
    expect(goesThroughProxy({ ...S3, protocol: 'http:' }, { HTTP_PROXY: 'http://proxy:3128' })).toBe(true);
    expect(goesThroughProxy(S3, {})).toBe(false);
  });

  it.each([
    ['*', false],
    ['s3.eu-west-1.amazonaws.com', false],
    ['S3.EU-WEST-1.AMAZONAWS.COM', false],
    ['s3.eu-west-1.amazonaws.com:443', false],
    ['s3.eu-west-1.amazonaws.com:8443', true],
    ['.amazonaws.com', false],
    ['*.amazonaws.com', false],
    ['.amazonaws.com:443', false],
    ['amazonaws.com', true],
    ['aws.com', true],
    ['localhost, .internal,  .amazonaws.com', false],
    ['localhost', true],
    ['', true],
    [',', true],
  ])('NO_PROXY=%s: %s', (rules, expected) => {
    expect(goesThroughProxy(S3, { ...PROXY, NO_PROXY: rules })).toBe(expected);
  });

  it('knows addresses, those of IPv6 with and without brackets', () => {
    const local: Destination = { protocol: 'https:', hostname: '::1', port: 9000 };
    for (const rule of ['::1', '[::1]', '[::1]:9000'])
      expect(goesThroughProxy(local, { ...PROXY, NO_PROXY: rule })).toBe(false);
    const address: Destination = { protocol: 'https:', hostname: '10.0.0.7', port: 9000 };
    expect(goesThroughProxy(address, { ...PROXY, NO_PROXY: '10.0.0.7' })).toBe(false);
    expect(goesThroughProxy(address, { ...PROXY, NO_PROXY: '10.0.0.70' })).toBe(true);
  });
});
