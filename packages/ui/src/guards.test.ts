import { describe, expect, test } from 'vitest';
import { type Guard, refusalOf } from './guards.ts';

const TOKEN = 'token-for-tests-0123456789';

/** Status of the refusal of a call with this name in `Host`; `null`: it is answered. */
function statusFor(host: string, guard: Partial<Guard>, origin?: string): number | null {
  const given = { scheme: 'http' as const, host: '127.0.0.1', port: 8484, token: TOKEN, ...guard };
  const headers = { host, authorization: `Bearer ${TOKEN}`, ...(origin !== undefined && { origin }) };
  return refusalOf({ method: 'GET', path: '/api/session', headers }, given)?.status ?? null;
}

describe('names in Host', () => {
  test.each(['127.0.0.5', '127.0.0.1', 'localhost', '::1'])(
    'the served address %s with its port, and the usual names of this machine',
    (host) => {
      const own = host === '::1' ? '[::1]' : host;
      for (const name of [own, '127.0.0.1', 'localhost', '[::1]'])
        expect(statusFor(`${name}:8484`, { host }), name).toBeNull();
      for (const name of ['127.0.0.6', 'evil.example', `${own}.evil.example`])
        expect(statusFor(`${name}:8484`, { host }), name).toBe(421);
      expect(statusFor(own, { host })).toBe(421);
      expect(statusFor(`${own}:8485`, { host })).toBe(421);
    },
  );

  test('browsers omit the port 80 of HTTP and 443 of HTTPS, also from the origin', () => {
    expect(statusFor('127.0.0.1', { port: 80 }, 'http://127.0.0.1')).toBeNull();
    expect(statusFor('127.0.0.1:80', { port: 80 })).toBeNull();
    expect(statusFor('localhost', { port: 443, scheme: 'https' }, 'https://localhost')).toBeNull();
    expect(statusFor('127.0.0.1', { port: 443 })).toBe(421);
    expect(statusFor('127.0.0.1', { port: 80, scheme: 'https' })).toBe(421);
    expect(statusFor('evil.example', { port: 80 })).toBe(421);
    expect(statusFor('127.0.0.1', { port: 80 }, 'http://evil.example')).toBe(403);
  });

  test('other machines reach an address by any name, so the certificate decides', () => {
    expect(statusFor('node17.cluster:8484', { host: '0.0.0.0', scheme: 'https' })).toBeNull();
  });
});
