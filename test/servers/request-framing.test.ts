import { describe, expect, test } from 'vitest';
import { parseRequestHead, RequestFraming } from './request-framing.ts';

const REQUESTS = {
  'no body': 'GET /a HTTP/1.1\r\nhost: x\r\n\r\n',
  'a length': 'PUT /a HTTP/1.1\r\nContent-Length: 7\r\n\r\n\r\n\r\nabc',
  'a length of 0': 'PUT /a HTTP/1.1\r\ncontent-length: 0\r\n\r\n',
  chunks:
    'PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;ext=1\r\nab\r\nc\r\nA\r\n0123456789\r\n0\r\n\r\n',
  'chunks and trailers':
    'PUT /a HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\nx-amz-checksum-crc32c: q==\r\nb: c\r\n\r\n',
};

describe.each(Object.entries(REQUESTS))('a request with %s', (_name, request) => {
  test('ends where it ends, wherever it is split', () => {
    const bytes = Buffer.from(`${request}NEXT`);
    for (let split = 0; split <= request.length; split++) {
      const framing = new RequestFraming();
      expect(framing.push(bytes.subarray(0, split))).toBe(split);
      expect(framing.isComplete).toBe(split === request.length);
      expect(framing.push(bytes.subarray(split))).toBe(request.length - split);
      expect(framing.isComplete).toBe(true);
      expect(framing.head?.path).toBe('/a');
    }
  });
});

test('the head: method, path with query, headers in lower case', () => {
  expect(parseRequestHead('PUT /a?b=%20c HTTP/1.1\r\nIf-None-Match:  * \r\nhost: h:1')).toEqual({
    method: 'PUT',
    path: '/a?b=%20c',
    headers: { 'if-none-match': '*', host: 'h:1' },
  });
});

test.each([
  ['GET / HTTP/1.0\r\n\r\n', 'not a request of HTTP/1.1'],
  ['\x16\x03\x01 hello\r\n\r\n', 'not a request of HTTP/1.1'],
  [`GET /${'x'.repeat(70_000)}`, 'too long'],
  ['PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n', 'not the size of a chunk: xyz'],
])('what it cannot follow throws', (request, message) => {
  expect(() => new RequestFraming().push(Buffer.from(request))).toThrow(message);
});
