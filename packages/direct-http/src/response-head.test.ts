import { describe, expect, test } from 'vitest';
import { checkHeadBeginning, findHeadEnd, parseResponseHead } from './response-head.ts';

function parse(text: string) {
  return parseResponseHead(Buffer.from(text, 'latin1'));
}

function parseFields(...fields: string[]) {
  return parse(`HTTP/1.1 200 OK\r\n${fields.map((field) => `${field}\r\n`).join('')}\r\n`);
}

describe('head: status line', () => {
  test('status and version decide; the phrase does not', () => {
    expect(parse('HTTP/1.1 206 Partial Content\r\n\r\n')).toMatchObject({ status: 206, keepsAlive: true });
    expect(parse('HTTP/1.1 404 \r\n\r\n').status).toBe(404);
    expect(parse('HTTP/1.1 599\r\n\r\n').status).toBe(599);
    expect(parse('HTTP/1.1 100 tab\t\xe9\r\n\r\n').status).toBe(100);
    expect(parse('HTTP/1.0 200 OK\r\n\r\n').keepsAlive).toBe(false);
  });

  test.each([
    'HTTP/1.2 200 OK',
    'HTTP/2 200 OK',
    'HTTP/1.1  200 OK',
    'HTTP/1.1 200OK',
    'HTTP/1.1 099 OK',
    'HTTP/1.1 600 OK',
    'HTTP/1.1 20 OK',
    'HTTP/1.1 2000 OK',
    'HTTP/1.1\t200 OK',
    'HTTP/1.1 200 O\0K',
    'HTTP/1.1 200 O\x7fK',
    'HTTP/1.1 200 O\rK',
    'HTTP/1.1 200 O\nK',
    ' HTTP/1.1 200 OK',
    '\r\nHTTP/1.1 200 OK',
    'http/1.1 200 OK',
  ])('%j is refused', (line) => {
    expect(() => parse(`${line}\r\n\r\n`)).toThrow(
      expect.objectContaining({ code: 'BAD_HEAD', phase: 'head' }),
    );
  });
});

describe('head: fields', () => {
  test('names are in lower case, blanks around values are gone, repeated ones are joined', () => {
    const { headers } = parseFields('ETag:"a"', 'X-A: \t one \t', 'x-a:two', 'X-Empty:', 'x-b: \xa0\xe9');
    expect({ ...headers }).toEqual({ etag: '"a"', 'x-a': 'one, two', 'x-empty': '', 'x-b': '\xa0\xe9' });
  });

  test('names that mean something to JavaScript mean nothing here', () => {
    const { headers } = parseFields('__proto__: a', '__proto__: b', 'constructor: c');
    expect(Object.entries(headers)).toEqual([
      ['__proto__', 'a, b'],
      ['constructor', 'c'],
    ]);
  });

  test.each([
    'no colon',
    ': no name',
    'a : blank before the colon',
    ' folded: a',
    '\tfolded',
    'a(b: not a token',
    'a: \0',
    'a: \x01',
    'a: \x7f',
    'a: bare\rCR',
    'a: bare\nLF',
    'a\xe9: b',
  ])('%j is refused', (field) => {
    expect(() => parseFields('x: y', field)).toThrow(expect.objectContaining({ code: 'BAD_HEAD' }));
  });

  test('200 fields are taken, 201 refused', () => {
    const fields = Array.from({ length: 200 }, (_, index) => `x-${index}: ${index}`);
    expect(parseFields(...fields).headers['x-199']).toBe('199');
    expect(() => parseFields(...fields, 'one: more')).toThrow(/more than 200/);
  });

  test('a head of 60 KiB that does not match is refused in linear time', () => {
    const blanks = ' '.repeat(60_000);
    const startedAt = process.cpuUsage().user;
    expect(() => parseFields(`a:${blanks}\0`)).toThrow(expect.objectContaining({ code: 'BAD_HEAD' }));
    expect(() => parseFields(`${'a'.repeat(60_000)}`)).toThrow(expect.objectContaining({ code: 'BAD_HEAD' }));
    // Quadratic time would be 3.6 billion steps each.
    expect(process.cpuUsage().user - startedAt).toBeLessThan(1_000_000);
  });
});

describe('head: length and coding', () => {
  test('one length, or the same twice', () => {
    expect(parseFields('Content-Length: 17').contentLengthBytes).toBe(17);
    expect(parseFields('Content-Length: 999999999999999').contentLengthBytes).toBe(999_999_999_999_999);
    expect(parseFields('Content-Length: 5', 'content-length: 5')).toMatchObject({
      contentLengthBytes: 5,
      headers: { 'content-length': '5' },
    });
    expect(parseFields().contentLengthBytes).toBeUndefined();
  });

  test('chunked, in any case', () => {
    expect(parseFields('Transfer-Encoding: Chunked')).toMatchObject({
      isChunked: true,
      contentLengthBytes: undefined,
    });
  });

  test.each([
    ['Content-Length: 5, 5'],
    ['Content-Length: +5'],
    ['Content-Length: -5'],
    ['Content-Length: 0x5'],
    ['Content-Length: 5 5'],
    ['Content-Length: '],
    ['Content-Length: 1234567890123456'],
    ['Content-Length: 5', 'Content-Length: 6'],
    ['Content-Length: 5', 'Content-Length: 05'],
    ['Content-Length: 5', 'Transfer-Encoding: chunked'],
    ['Transfer-Encoding: gzip, chunked'],
    ['Transfer-Encoding: identity'],
    ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'],
    ['Transfer-Encoding: '],
  ])('%j is refused', (...fields) => {
    expect(() => parseFields(...fields)).toThrow(expect.objectContaining({ code: 'BAD_HEAD' }));
  });

  test('chunks in HTTP/1.0 are refused', () => {
    expect(() => parse('HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')).toThrow(/HTTP\/1\.0/);
  });
});

test('head: Connection and Keep-Alive say how long the connection lives', () => {
  expect(parseFields('Connection: close').keepsAlive).toBe(false);
  expect(parseFields('Connection: a, Close ,b').keepsAlive).toBe(false);
  expect(parseFields('Connection: x', 'Connection: close').keepsAlive).toBe(false);
  expect(parseFields('Connection: keep-alive').keepsAlive).toBe(true);
  expect(parseFields('Connection: closed').keepsAlive).toBe(true);
  expect(parseFields('Keep-Alive: timeout=5, max=100').keepAliveMs).toBe(4000);
  expect(parseFields('Keep-Alive: max=100, timeout=7').keepAliveMs).toBe(6000);
  expect(parseFields('Keep-Alive: timeout=999999').keepAliveMs).toBe(60_000);
  expect(parseFields('Keep-Alive: timeout=0').keepAliveMs).toBe(0);
  expect(parseFields('Keep-Alive: max=100').keepAliveMs).toBeUndefined();
});

test('head: its end is found wherever the bytes are split, and old bytes behind it are not looked at', () => {
  const bytes = Buffer.from('HTTP/1.1 200 OK\r\na: b\r\n\r\nbody\r\n\r\n');
  const end = bytes.indexOf('body');
  for (let first = 0; first <= bytes.length; first++) {
    expect(findHeadEnd(bytes, 0, first)).toBe(first >= end ? end : -1);
    if (first < end) expect(findHeadEnd(bytes, first, bytes.length)).toBe(end);
  }
});

test('head: what cannot become HTTP is refused before its end', () => {
  const check = (text: string) => checkHeadBeginning(Buffer.from(`${text}garbage\nof before`), text.length);
  for (const text of ['', 'H', 'HTTP/1', 'HTTP/1.1 200 OK\r\n', 'HTTP/1.1 200 OK\r\nA: b\r']) {
    expect(() => check(text)).not.toThrow();
  }
  for (const text of [
    'x',
    '\n',
    'HTTX',
    'HTTP/2',
    'SSH-2.0',
    'HTTP/1.1 200 OK\n',
    'HTTP/1.1 200 OK\r\nA: b\n',
  ]) {
    expect(() => check(text), text).toThrow(expect.objectContaining({ code: 'BAD_HEAD' }));
  }
});
