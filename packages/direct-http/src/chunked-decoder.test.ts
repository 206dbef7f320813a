import { expect, test } from 'vitest';
import { ChunkedDecoder } from './chunked-decoder.ts';
import { CollectedBody } from './collected-body.ts';

/** Decodes `text` in pieces that end at `cuts`; what follows the body is `rest`. */
function decode(text: string, cuts: readonly number[] = [], bytesMax = 1000) {
  const bytes = Buffer.from(text, 'latin1');
  const body = new CollectedBody({ bytesMax, codeIfLarger: 'TOO_LARGE' });
  const decoder = new ChunkedDecoder(body);
  let at = 0;
  for (const end of [...cuts, bytes.length]) if (!decoder.isDone) at = decoder.push(bytes, at, end);
  return { isDone: decoder.isDone, body: Buffer.from(body.take()).toString('latin1'), rest: text.slice(at) };
}

const WHOLE =
  '5\r\nhello\r\n00A;a=b;c="d"\r\n, chunked \r\n1;\r\n!\r\n0;end\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n';

test('chunks: sizes in hexadecimal, extensions and trailers dropped, what follows left', () => {
  expect(decode(`${WHOLE}HTTP/1.1`)).toEqual({ isDone: true, body: 'hello, chunked !', rest: 'HTTP/1.1' });
  expect(decode('0\r\n\r\n')).toEqual({ isDone: true, body: '', rest: '' });
});

test('chunks: the same at every split, and byte by byte', () => {
  for (let cut = 0; cut <= WHOLE.length; cut++) {
    expect(decode(WHOLE, [cut])).toEqual({ isDone: true, body: 'hello, chunked !', rest: '' });
    expect(decode(WHOLE.slice(0, cut)).isDone).toBe(cut === WHOLE.length);
  }
  const cuts = Array.from({ length: WHOLE.length }, (_, index) => index);
  expect(decode(WHOLE, cuts)).toMatchObject({ isDone: true, body: 'hello, chunked !' });
});

test.each([
  ['no size', '\r\n'],
  ['an extension without a size', ';a\r\n'],
  ['a blank before the size', ' 5\r\n'],
  ['a blank after the size', '5 \r\n'],
  ['0x', '0x5\r\n'],
  ['a sign', '+5\r\n'],
  ['not hexadecimal', '5g\r\n'],
  ['13 digits', '0000000000005\r\n'],
  ['LF alone after the size', '5\nhello'],
  ['CR alone after the size', '5\rhello'],
  ['more data than the size', '5\r\nhello!\r\n'],
  ['LF alone after the data', '5\r\nhello\n'],
  ['CR alone after the data', '5\r\nhello\rx'],
  ['LF in an extension', '5;a\nb\r\n'],
  ['NUL in an extension', '5;\0\r\n'],
  ['an extension of 4 KiB', `5;${'a'.repeat(4097)}\r\n`],
  ['LF in a trailer', '0\r\na: b\n\r\n'],
  ['CR alone in a trailer', '0\r\na: b\rc'],
  ['trailers of 16 KiB', `0\r\n${'a: b\r\n'.repeat(4097)}`],
])('chunks: %s is BAD_BODY', (_, text) => {
  expect(() => decode(text)).toThrow(expect.objectContaining({ code: 'BAD_BODY', phase: 'body' }));
});

test('chunks: a body above the limit is TOO_LARGE at once, before memory is taken for it', () => {
  expect(decode('a\r\n0123456789\r\n0\r\n\r\n', [], 10).body).toBe('0123456789');
  expect(() => decode('a\r\n0123456789\r\n1\r\nx', [], 10)).toThrow(
    expect.objectContaining({ code: 'TOO_LARGE', phase: 'body', bytes: 10 }),
  );
});

test('collected body: grows by doubling, never above the limit', () => {
  const body = new CollectedBody({ bytesMax: 1000, codeIfLarger: 'TOO_LARGE' });
  for (let index = 0; index < 1000; index++) body.append(Uint8Array.of(index), 0, 1);
  expect(body.take()).toEqual(Uint8Array.from({ length: 1000 }, (_, index) => index));
  expect(body.take().buffer.byteLength).toBe(1000);
  expect(() => body.append(Uint8Array.of(1), 0, 1)).toThrow(expect.objectContaining({ code: 'TOO_LARGE' }));
});
