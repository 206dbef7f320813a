import { expect, test } from 'vitest';
import { connectError, DirectHttpError, toDirectHttpError } from './errors.ts';

const ENDPOINT = { hostname: 'example.org', port: 443 };

function systemError(code: string, syscall?: string): Error {
  return Object.assign(new Error(`it failed: ${code}`), { code, ...(syscall && { syscall }) });
}

test.each([
  ['CONNECT_FAILED', systemError('ECONNREFUSED', 'connect'), false],
  ['CONNECT_FAILED', systemError('ENOTFOUND', 'getaddrinfo'), false],
  ['CONNECT_FAILED', systemError('ETIMEDOUT', 'read'), true],
  ['CONNECT_FAILED', systemError('ECONNRESET'), true],
  ['TLS_FAILED', systemError('CERT_HAS_EXPIRED'), true],
  ['TLS_FAILED', systemError('ERR_SSL_WRONG_VERSION_NUMBER'), true],
])('connect error: %s for %s', (code, cause, isTcpConnected) => {
  const error = connectError(cause, ENDPOINT, isTcpConnected);
  expect(error).toMatchObject({ code, phase: 'connect', bytes: 0, isStale: false, cause });
  expect(error.message).toContain('example.org, port 443');
});

test('connect error: several addresses: names the code, because Node has no message for it', () => {
  const several = Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' });
  expect(connectError(several, ENDPOINT, false).message).toContain('ECONNREFUSED');
});

test('errors: ours stay as they are, others are UNEXPECTED with their cause', () => {
  const ours = new DirectHttpError('BAD_HEAD', 'x', { phase: 'head' });
  expect(toDirectHttpError(ours, 'body', 5)).toBe(ours);
  const other = new TypeError('other');
  expect(toDirectHttpError(other, 'body', 5)).toMatchObject({
    code: 'UNEXPECTED',
    phase: 'body',
    bytes: 5,
    cause: other,
  });
  expect(toDirectHttpError('text', 'queue', 0).message).toBe('text');
});
