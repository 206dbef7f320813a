import { inspect } from 'node:util';
import { isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { Proxies, type ServerAddress } from './proxy.ts';

const S3: ServerAddress = { protocol: 'https:', hostname: 's3.eu-west-1.amazonaws.com', port: 443 };
const PROXY = { HTTPS_PROXY: 'http://proxy:3128' };

function refusalOf(env: Record<string, string>): string {
  try {
    new Proxies(env).to(S3);
  } catch (error) {
    if (isCheckpointError(error, 'InvalidConfig')) return error.message;
    throw error;
  }
  throw new Error('it was accepted');
}

describe('the proxy to a server', () => {
  const isProxied = (env: Record<string, string>, destination = S3) =>
    new Proxies(env).to(destination) !== undefined;

  it('stands in the variable of the protocol', () => {
    expect(isProxied(PROXY)).toBe(true);
    expect(isProxied({ HTTP_PROXY: 'http://proxy:3128' })).toBe(false);
    expect(isProxied({ HTTP_PROXY: 'http://proxy:3128' }, { ...S3, protocol: 'http:' })).toBe(true);
    expect(isProxied({})).toBe(false);
  });

  it('has its whole URL and the variable as spelt; lower case comes first, and an empty one counts as absent', () => {
    const env = { https_proxy: 'http://me:p%40ss@proxy:3128', HTTPS_PROXY: 'http://other' };
    const proxy = new Proxies(env).to(S3);
    expect(proxy?.variable).toBe('https_proxy');
    expect(proxy?.url.reveal()).toBe('http://me:p%40ss@proxy:3128/');
    expect(proxy?.secrets).toEqual(['p@ss', Buffer.from('me:p@ss').toString('base64')]);
    expect(isProxied({ https_proxy: '', HTTPS_PROXY: 'http://other' })).toBe(false);
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
    expect(isProxied({ ...PROXY, NO_PROXY: rules })).toBe(expected);
  });

  it('knows addresses, those of IPv6 with and without brackets', () => {
    const local: ServerAddress = { protocol: 'https:', hostname: '::1', port: 9000 };
    for (const rule of ['::1', '[::1]', '[::1]:9000'])
      expect(isProxied({ ...PROXY, NO_PROXY: rule }, local)).toBe(false);
    const address: ServerAddress = { protocol: 'https:', hostname: '10.0.0.7', port: 9000 };
    expect(isProxied({ ...PROXY, NO_PROXY: '10.0.0.7' }, address)).toBe(false);
    expect(isProxied({ ...PROXY, NO_PROXY: '10.0.0.70' }, address)).toBe(true);
  });
});

describe('a proxy that cannot be used', () => {
  it.each([
    ['without a scheme', 'me:canary-pass@proxy:3128'],
    ['only a name', 'canary-pass'],
    ['of SOCKS', 'socks5://me:canary-pass@proxy:1080'],
    ['with a port that is none', 'http://me:canary-pass@proxy:99999'],
    ['with a "/" in its password', 'http://me:canary-pass/x@proxy:3128'],
    ['with a "#" in its password', 'http://me:1#canary-pass@proxy:3128'],
    ['with a query', 'http://proxy:3128?canary-pass'],
    ['with a scheme and no slashes', 'http:me:canary-pass@proxy'],
    ['with a "%" that is none', 'http://me:canary-pass%zz@proxy:3128'],
  ])('%s is refused by the name of its variable, and not repeated', (_name, value) => {
    const message = refusalOf({ HTTPS_PROXY: value });
    expect(message).toMatch(/^HTTPS_PROXY /);
    expect(message).toContain('accepted: http://host:port or https://host:port');
    expect(message).not.toContain('canary');
  });

  it('that is invalid does not matter for a server that is reached without it', () => {
    const env = { HTTPS_PROXY: 'socks5://proxy', NO_PROXY: '.amazonaws.com' };
    expect(new Proxies(env).to(S3)).toBeUndefined();
    expect(new Proxies({ HTTP_PROXY: 'socks5://proxy' }).to(S3)).toBeUndefined();
  });
});

it('proxies that are inspected show no password', () => {
  const proxies = new Proxies({ HTTPS_PROXY: 'http://me:canary-pass@proxy:3128' });
  const shown = [proxies, proxies.to(S3)?.url].map((each) =>
    inspect(each, { depth: null, showHidden: true }),
  );
  expect(shown.join()).not.toContain('canary');
});
