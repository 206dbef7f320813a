import { expect, test } from 'vitest';
import type { DirectRequest } from './message.ts';
import { hostHeader, writeRequestHead } from './request-head.ts';

const REQUEST: DirectRequest = {
  protocol: 'http:',
  hostname: 'example.org',
  port: 80,
  method: 'GET',
  path: '/a?b=c',
  headers: {},
};

function write(changes: Partial<DirectRequest>): string {
  return writeRequestHead({ ...REQUEST, ...changes }, 'example.org');
}

test('request head: request line, Host, the headers as they are, an empty line', () => {
  expect(write({ headers: { Range: 'bytes=0-4', 'x-a': 'é\t~' } })).toBe(
    'GET /a?b=c HTTP/1.1\r\nHost: example.org\r\nRange: bytes=0-4\r\nx-a: é\t~\r\n\r\n',
  );
});

test('request head: a given Host is kept, alone', () => {
  expect(write({ headers: { host: 'signed.example' } })).toBe(
    'GET /a?b=c HTTP/1.1\r\nhost: signed.example\r\n\r\n',
  );
  expect(() => write({ headers: { host: 'a', Host: 'b' } })).toThrow(/two Host/);
});

test('request head: Content-Length is that of the body', () => {
  const body = new Uint8Array(7);
  expect(write({ method: 'PUT', body })).toContain('\r\nContent-Length: 7\r\n');
  expect(write({ method: 'PUT' })).toContain('\r\nContent-Length: 0\r\n');
  expect(write({ method: 'POST' })).toContain('\r\nContent-Length: 0\r\n');
  expect(write({ method: 'DELETE' })).not.toContain('Content-Length');
  expect(write({ method: 'DELETE', body })).toContain('\r\nContent-Length: 7\r\n');
  expect(
    write({ method: 'PUT', body, headers: { 'content-length': '7' } }).match(/content-length/gi),
  ).toEqual(['content-length']);
  expect(write({ headers: { 'content-length': '0' } })).toContain('content-length: 0');
});

test.each<[string, Partial<DirectRequest>]>([
  ['a length that is wrong', { body: new Uint8Array(7), headers: { 'Content-Length': '8' } }],
  ['a length twice', { headers: { 'Content-Length': '0', 'content-length': '0' } }],
  ['Transfer-Encoding', { headers: { 'Transfer-Encoding': 'chunked' } }],
  ['Connection', { headers: { connection: 'close' } }],
  ['Upgrade', { headers: { Upgrade: 'h2c' } }],
  ['Trailer', { headers: { trailer: 'x' } }],
  ['a method with a blank', { method: 'GET /x' }],
  ['an empty method', { method: '' }],
  ['a path with a blank', { path: '/a b' }],
  ['a path with CRLF', { path: '/a\r\nx: y' }],
  ['a path that is not encoded', { path: '/é' }],
  ['a path without a slash', { path: 'a' }],
  ['an empty path', { path: '' }],
  ['a value with CRLF', { headers: { a: 'b\r\nc: d' } }],
  ['a value with LF', { headers: { a: 'b\nc: d' } }],
  ['a value with NUL', { headers: { a: '\0' } }],
  ['a value above Latin-1', { headers: { a: '\u{1f600}' } }],
  ['a value whose low byte is LF', { headers: { a: '\u010a' } }],
  ['a name with a colon', { headers: { 'a:': 'b' } }],
  ['a name with CRLF', { headers: { 'a\r\nb': 'c' } }],
  ['an empty name', { headers: { '': 'c' } }],
  ['no idle time', { idleTimeoutMs: 0 }],
  ['an idle time that is not a number', { idleTimeoutMs: Number.NaN }],
  ['an idle time without end', { idleTimeoutMs: Number.POSITIVE_INFINITY }],
])('request head: %s is BAD_REQUEST', (_, changes) => {
  expect(() => write(changes)).toThrow(expect.objectContaining({ code: 'BAD_REQUEST', phase: 'queue' }));
});

test('Host: the port unless it is the usual one, brackets around IPv6, no zone', () => {
  const host = (changes: Partial<DirectRequest>) => hostHeader({ ...REQUEST, ...changes });
  expect(host({})).toBe('example.org');
  expect(host({ protocol: 'https:' })).toBe('example.org:80');
  expect(host({ protocol: 'https:', port: 443 })).toBe('example.org');
  expect(host({ port: 9000 })).toBe('example.org:9000');
  expect(host({ hostname: '::1', port: 9000 })).toBe('[::1]:9000');
  expect(host({ hostname: 'fe80::1%eth0' })).toBe('[fe80::1]');
});

test.each<[string, Partial<DirectRequest>]>([
  ['brackets', { hostname: '[::1]' }],
  ['an empty name', { hostname: '' }],
  ['CRLF in the name', { hostname: 'a\r\nb' }],
  ['a path in the name', { hostname: 'a/b' }],
  ['port 0', { port: 0 }],
  ['port 65,536', { port: 65_536 }],
  ['port NaN', { port: Number.NaN }],
  ['another protocol', { protocol: 'ftp:' as 'http:' }],
])('Host: %s is BAD_REQUEST', (_, changes) => {
  expect(() => hostHeader({ ...REQUEST, ...changes })).toThrow(
    expect.objectContaining({ code: 'BAD_REQUEST' }),
  );
});
