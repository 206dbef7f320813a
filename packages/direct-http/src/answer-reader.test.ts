import { describe, expect, test } from 'vitest';
import { type Answer, AnswerReader } from './answer-reader.ts';
import type { DirectRequest } from './message.ts';

const REQUEST: DirectRequest = {
  protocol: 'http:',
  hostname: 'h',
  port: 80,
  method: 'GET',
  path: '/',
  headers: {},
};
const GUARD = 0xee;

/** A destination in the middle of memory that must not be touched. */
function destination(bytes: number) {
  const memory = new Uint8Array(bytes + 128).fill(GUARD);
  const buffer = memory.subarray(64, 64 + bytes);
  const areGuardsWhole = () =>
    [...memory.subarray(0, 64), ...memory.subarray(64 + bytes)].every((x) => x === GUARD);
  return { buffer, areGuardsWhole, isUnchanged: () => memory.every((x) => x === GUARD) };
}

/** Simulates Node: writes to the last view, at most its length at a time. */
function feed(reader: AnswerReader, bytes: Uint8Array): Answer | undefined {
  let answer: Answer | undefined;
  for (let at = 0; at < bytes.byteLength; ) {
    const view = reader.view();
    expect(view.byteLength).toBeGreaterThan(0);
    const piece = bytes.subarray(at, at + view.byteLength);
    view.set(piece);
    answer = reader.take(piece.byteLength) ?? answer;
    at += piece.byteLength;
  }
  return answer;
}

function read(text: string, changes: Partial<DirectRequest> = {}, cuts: readonly number[] = []) {
  const bytes = Buffer.from(text, 'latin1');
  const reader = new AnswerReader();
  reader.begin({ ...REQUEST, ...changes });
  let answer: Answer | undefined;
  let at = 0;
  for (const end of [...cuts, bytes.length]) {
    answer = feed(reader, bytes.subarray(at, end)) ?? answer;
    at = end;
  }
  return { answer, reader };
}

const BODY = 'the body of the answer';
const INTERIM = 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n';
const RANGE = `${INTERIM}HTTP/1.1 206 Partial Content\r\nETag: "e"\r\nContent-Range: bytes 10-31/100\r\nContent-Length: 22\r\n\r\n${BODY}`;

describe('answer: into the buffer', () => {
  test('at every split, byte by byte, and at once; nothing beside the buffer is touched', () => {
    const each = Array.from({ length: RANGE.length }, (_, index) => index);
    for (const cuts of [[], each, ...each.map((cut) => [cut])]) {
      const { buffer, areGuardsWhole } = destination(22);
      const { answer, reader } = read(RANGE, { into: { buffer, startBytes: 10, etag: '"e"' } }, cuts);
      expect(answer).toMatchObject({ head: { status: 206 }, bytesInto: 22, body: new Uint8Array(0) });
      expect(Buffer.from(buffer).toString()).toBe(BODY);
      expect(areGuardsWhole()).toBe(true);
      expect(reader.hasSurplus).toBe(false);
    }
  });

  test('views before the head and after the last byte are scratch, between them the rest of the buffer', () => {
    const { buffer } = destination(22);
    const into = { buffer, startBytes: 10 };
    const { reader } = read(RANGE, { into });
    expect(reader.view()).toBe(reader.scratch);
    const unfinished = read(RANGE.slice(0, -1), { into }).reader;
    expect(unfinished.view().byteOffset).toBe(buffer.byteOffset + 21);
    expect(unfinished.view().byteLength).toBe(1);
    expect(unfinished.bodyBytes).toBe(21);
    const inHead = read('HTTP/1.1 206', { into }).reader;
    expect(inHead.view().buffer).toBe(inHead.scratch.buffer);
  });

  test('bytes after the body go to scratch and are told', () => {
    for (let cut = RANGE.length - 30; cut <= RANGE.length; cut++) {
      const { buffer, areGuardsWhole } = destination(22);
      const { answer, reader } = read(`${RANGE}HTTP/1.1 200 OK`, { into: { buffer, startBytes: 10 } }, [cut]);
      expect(answer?.bytesInto).toBe(22);
      expect(reader.hasSurplus).toBe(true);
      expect(areGuardsWhole()).toBe(true);
      expect(Buffer.from(buffer).toString()).toBe(BODY);
    }
  });

  test.each<[string, string, number, number, number]>([
    ['200 to a range from 0', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello', 5, 0, 5],
    ['200 shorter than the buffer', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello', 9, 0, 5],
    ['200 of nothing', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', 9, 0, 0],
    ['200 of nothing into nothing', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', 0, 0, 0],
    [
      '206 shorter at the end of the object',
      'HTTP/1.1 206 P\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\nhello',
      9,
      5,
      5,
    ],
    [
      '206 of an object of unknown size',
      'HTTP/1.1 206 P\r\nContent-Range: bytes 5-9/*\r\nContent-Length: 5\r\n\r\nhello',
      5,
      5,
      5,
    ],
    [
      'an encoding that is none',
      'HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello',
      5,
      0,
      5,
    ],
  ])('%s fills what there is', (_, text, bufferBytes, startBytes, bytesInto) => {
    const { buffer, areGuardsWhole } = destination(bufferBytes);
    const { answer } = read(text, { into: { buffer, startBytes } });
    expect(answer).toMatchObject({ bytesInto, body: new Uint8Array(0) });
    expect(Buffer.from(buffer.subarray(0, bytesInto)).toString()).toBe('hello'.slice(0, bytesInto));
    expect(areGuardsWhole()).toBe(true);
  });

  test('any other status is collected', () => {
    const error = 'HTTP/1.1 416 Range\r\nContent-Range: bytes */5\r\nContent-Length: 4\r\n\r\noops';
    for (const [text, body] of [
      [error, 'oops'],
      ['HTTP/1.1 404 N\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngone\r\n0\r\n\r\n', 'gone'],
      ['HTTP/1.1 307 T\r\nLocation: /x\r\nContent-Length: 2\r\n\r\nno', 'no'],
      ['HTTP/1.1 204 No\r\n\r\n', ''],
      ['HTTP/1.1 304 Not Modified\r\nContent-Length: 22\r\nETag: "e"\r\n\r\n', ''],
    ] as const) {
      const { buffer, isUnchanged } = destination(22);
      const { answer } = read(text, { into: { buffer } });
      expect(answer?.bytesInto).toBeUndefined();
      expect(Buffer.from(answer?.body ?? []).toString()).toBe(body);
      expect(isUnchanged()).toBe(true);
    }
  });
});

const OK = 'HTTP/1.1 200 OK\r\n';
const PARTIAL = 'HTTP/1.1 206 Partial Content\r\n';
const LENGTH = 'Content-Length: 5\r\n';

/** The error for each answer to a range of 5 bytes from 10 with ETag "e". */
const REFUSALS: readonly (readonly [code: string, name: string, text: string])[] = [
  ['BAD_HEAD', 'not HTTP', 'SSH-2.0-OpenSSH_9.9\r\n\r\n'],
  ['BAD_HEAD', 'bytes before', `\r\n${OK}${LENGTH}\r\nhello`],
  ['BAD_HEAD', 'HTTP/2', `HTTP/2 200\r\n${LENGTH}\r\nhello`],
  ['BAD_HEAD', 'LF alone', `HTTP/1.1 200 OK\n${LENGTH}\r\nhello`],
  ['BAD_HEAD', 'folding', `${OK}a: b\r\n c\r\n${LENGTH}\r\nhello`],
  ['BAD_HEAD', 'blank before the colon', `${OK}Content-Length : 5\r\n\r\nhello`],
  ['BAD_HEAD', 'NUL', `${OK}a: \0\r\n${LENGTH}\r\nhello`],
  ['BAD_HEAD', 'two lengths', `${OK}Content-Length: 4\r\n${LENGTH}\r\nhello`],
  [
    'BAD_HEAD',
    'length and chunks',
    `${OK}Transfer-Encoding: chunked\r\n${LENGTH}\r\n5\r\nhello\r\n0\r\n\r\n`,
  ],
  ['BAD_HEAD', 'unknown coding', `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`],
  ['BAD_HEAD', 'chunks in HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['BAD_HEAD', '101', 'HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nhello'],
  ['BAD_HEAD', '9 interim answers', `${'HTTP/1.1 100 C\r\n\r\n'.repeat(9)}${OK}${LENGTH}\r\nhello`],
  ['BAD_HEAD', '201 headers', `${OK}${'a: b\r\n'.repeat(201)}\r\n`],
  ['BAD_HEAD', 'success without length, collected', 'HTTP/1.1 201 Created\r\n\r\nhello'],
  ['BAD_BODY', 'no length', `${OK}\r\nhello`],
  ['BAD_BODY', 'chunks', `${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`],
  [
    'BAD_BODY',
    'encoding',
    `${PARTIAL}Content-Encoding: gzip\r\nContent-Range: bytes 10-14/50\r\n${LENGTH}\r\nhello`,
  ],
  [
    'TOO_LARGE',
    'longer than the buffer',
    `${PARTIAL}Content-Range: bytes 10-15/50\r\nContent-Length: 6\r\n\r\nhello!`,
  ],
  ['RANGE_MISMATCH', 'the whole object', `${OK}ETag: "e"\r\n${LENGTH}\r\nhello`],
  ['RANGE_MISMATCH', '200 with a range', `${OK}Content-Range: bytes 10-14/50\r\n${LENGTH}\r\nhello`],
  ['RANGE_MISMATCH', '206 without a range', `${PARTIAL}ETag: "e"\r\n${LENGTH}\r\nhello`],
  [
    'RANGE_MISMATCH',
    'multipart',
    `${PARTIAL}Content-Type: multipart/byteranges; boundary=x\r\n${LENGTH}\r\nhello`,
  ],
  [
    'RANGE_MISMATCH',
    'two ranges',
    `${PARTIAL}Content-Range: bytes 10-14/50\r\nContent-Range: bytes 10-14/50\r\n${LENGTH}\r\nhello`,
  ],
  ['RANGE_MISMATCH', 'another start', `${PARTIAL}Content-Range: bytes 9-13/50\r\n${LENGTH}\r\nhello`],
  [
    'RANGE_MISMATCH',
    'another size than its length',
    `${PARTIAL}Content-Range: bytes 10-13/50\r\n${LENGTH}\r\nhello`,
  ],
  [
    'RANGE_MISMATCH',
    'a range past the object',
    `${PARTIAL}Content-Range: bytes 10-14/14\r\n${LENGTH}\r\nhello`,
  ],
  ['RANGE_MISMATCH', 'another unit', `${PARTIAL}Content-Range: items 10-14/50\r\n${LENGTH}\r\nhello`],
  [
    'RANGE_MISMATCH',
    'shorter before the end of the object',
    `${PARTIAL}ETag: "e"\r\nContent-Range: bytes 10-13/50\r\nContent-Length: 4\r\n\r\nhell`,
  ],
  [
    'RANGE_MISMATCH',
    'shorter, and where the object ends is unknown',
    `${PARTIAL}ETag: "e"\r\nContent-Range: bytes 10-13/*\r\nContent-Length: 4\r\n\r\nhell`,
  ],
  [
    'ETAG_MISMATCH',
    'another ETag',
    `${PARTIAL}ETag: "f"\r\nContent-Range: bytes 10-14/50\r\n${LENGTH}\r\nhello`,
  ],
  [
    'ETAG_MISMATCH',
    'a weak ETag',
    `${PARTIAL}ETag: W/"e"\r\nContent-Range: bytes 10-14/50\r\n${LENGTH}\r\nhello`,
  ],
  ['ETAG_MISMATCH', 'no ETag', `${PARTIAL}Content-Range: bytes 10-14/50\r\n${LENGTH}\r\nhello`],
];

test.each(REFUSALS)('answer: %s (%s): the buffer is unchanged at every split', (code, name, text) => {
  const cuts = Array.from({ length: Math.min(text.length, 400) }, (_, index) => [index]);
  for (const cut of [[], ...cuts]) {
    const { buffer, isUnchanged } = destination(5);
    const into = { buffer, startBytes: 10, etag: '"e"' };
    expect(() => read(text, { into }, cut), name).toThrow(
      expect.objectContaining({ code, phase: 'head', bytes: 0 }),
    );
    expect(isUnchanged()).toBe(true);
  }
});

describe('answer: collected', () => {
  test('by length, chunks or to the end, at every split', () => {
    for (const [text, endsAtEof] of [
      ['HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello', false],
      ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n', false],
      ['HTTP/1.1 500 Oops\r\n\r\nhello', true],
      ['HTTP/1.0 404 Gone\r\n\r\nhello', true],
    ] as const) {
      for (let cut = 0; cut <= text.length; cut++) {
        const { answer, reader } = read(text, {}, [cut]);
        const whole = endsAtEof ? reader.takeEnd() : answer;
        expect(Buffer.from(whole?.body ?? []).toString()).toBe('hello');
        expect(whole?.bytesInto).toBeUndefined();
        if (!endsAtEof) expect(reader.takeEnd()).toBeUndefined();
      }
    }
  });

  test('HEAD, 204 and 304 have no body, whatever their length says', () => {
    for (const [method, text] of [
      ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n'],
      ['HEAD', 'HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n'],
      ['GET', 'HTTP/1.1 204 No Content\r\n\r\n'],
      ['GET', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 17\r\n\r\n'],
    ] as const) {
      const { answer, reader } = read(text, { method });
      expect(answer).toMatchObject({ body: new Uint8Array(0), bytesInto: undefined });
      expect(reader.hasSurplus).toBe(false);
    }
  });

  test('limits: 1 MiB for errors, 16 MiB for others or as asked; refused from the head where it says', () => {
    const length = (status: number, bytes: number) =>
      `HTTP/1.1 ${status} X\r\nContent-Length: ${bytes}\r\n\r\n`;
    expect(() => read(length(200, 2 ** 24))).not.toThrow();
    expect(() => read(length(404, 2 ** 20))).not.toThrow();
    for (const [text, bodyBytesMax, code] of [
      [length(200, 2 ** 24 + 1), undefined, 'TOO_LARGE'],
      [length(404, 2 ** 20 + 1), undefined, 'BAD_BODY'],
      [length(200, 11), 10, 'TOO_LARGE'],
    ] as const) {
      expect(() => read(text, { bodyBytesMax })).toThrow(expect.objectContaining({ code, phase: 'head' }));
    }
    const mebibyte = 'x'.repeat(2 ** 20);
    for (const [text, code] of [
      [`HTTP/1.1 500 X\r\n\r\n${mebibyte}!`, 'BAD_BODY'],
      [`HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n${mebibyte}!`, 'BAD_BODY'],
      ['HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890', 'TOO_LARGE'],
    ] as const) {
      expect(() => read(text, { bodyBytesMax: 10 })).toThrow(
        expect.objectContaining({ code, phase: 'body' }),
      );
    }
    // The limit of an answer does not apply to an error.
    expect(
      read('HTTP/1.1 404 X\r\nContent-Length: 4\r\n\r\ngone', { bodyBytesMax: 1 }).answer?.head.status,
    ).toBe(404);
  });
});

describe('answer: long heads', () => {
  const headOf = (bytes: number) => {
    const start = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Long: ';
    return `${start}${'a'.repeat(bytes - start.length - 4)}\r\n\r\n`;
  };

  test('past scratch, at each split around its size, and up to 64 KiB', () => {
    const cuts = Array.from({ length: 20 }, (_, index) => [16_384 - 10 + index]);
    for (const headBytes of [16_383, 16_384, 16_385, 16_388, 40_000, 65_535, 65_536]) {
      for (const cut of [[], ...cuts.filter(([at]) => at! < headBytes)]) {
        const { buffer, areGuardsWhole } = destination(5);
        const { answer } = read(`${headOf(headBytes)}hello`, { into: { buffer } }, cut);
        expect(answer?.bytesInto).toBe(5);
        expect(Buffer.from(buffer).toString()).toBe('hello');
        expect(areGuardsWhole()).toBe(true);
      }
    }
  });

  test('a byte more is refused', () => {
    expect(() => read(`${headOf(65_537)}hello`)).toThrow(expect.objectContaining({ code: 'BAD_HEAD' }));
    expect(() => read(`${headOf(200_000)}hello`)).toThrow(/more than 65536 bytes/);
  });
});

test('answer: one after the other on one reader, without traces of the one before', () => {
  const reader = new AnswerReader();
  for (let round = 0; round < 3; round++) {
    const { buffer } = destination(22);
    expect(reader.isUnanswered).toBe(false);
    reader.begin({ ...REQUEST, into: { buffer, startBytes: 10 } });
    expect(reader.isUnanswered).toBe(true);
    expect(feed(reader, Buffer.from(RANGE))).toMatchObject({ bytesInto: 22 });
    reader.begin(REQUEST);
    const answer = feed(reader, Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'));
    expect(answer).toMatchObject({ bytesInto: undefined, body: Uint8Array.from(Buffer.from('ok')) });
  }
  expect(reader.hasSurplus).toBe(false);
});

test('answer: an interim answer is an answer to a request that would else count as unanswered', () => {
  const { reader } = read('HTTP/1.1 100 Continue\r\n\r\n');
  expect(reader.isUnanswered).toBe(false);
  expect(reader.phase).toBe('head');
});
