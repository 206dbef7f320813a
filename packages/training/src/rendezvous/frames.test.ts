import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { answerOf } from './answers.ts';
import { BODY_BYTES_MAX, type Frame, FrameReader, writeFrame } from './frames.ts';
import { requestOf } from './requests.ts';

function written(header: Record<string, unknown>, ...parts: Uint8Array[]): Buffer {
  const stream = new PassThrough();
  writeFrame(stream, header, parts);
  return stream.read() as Buffer;
}

function prefix(header: number, body: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32BE(header, 0);
  bytes.writeUInt32BE(body, 4);
  return bytes;
}

function frame(header: Record<string, unknown>, body = new Uint8Array()): Frame {
  return { header, body };
}

test('frames come out as they went in, however the stream is cut', () => {
  const bytes = Buffer.concat([
    written({ id: 1, text: 'ä' }, Uint8Array.of(1, 2), new Uint8Array(), Uint8Array.of(3)),
    written({ id: 2 }),
    written({ id: 3 }, new Uint8Array(1000).fill(7)),
  ]);
  for (const size of [1, 2, 7, 64, bytes.length]) {
    const reader = new FrameReader();
    const frames: Frame[] = [];
    for (let at = 0; at < bytes.length; at += size) {
      frames.push(...reader.push(bytes.subarray(at, at + size)));
    }
    expect(frames.map(({ header, body }) => [header, [...body]])).toEqual([
      [{ id: 1, text: 'ä' }, [1, 2, 3]],
      [{ id: 2 }, []],
      [{ id: 3 }, Array(1000).fill(7)],
    ]);
  }
});

test('lengths out of range are refused before anything is kept', () => {
  for (const [header, body] of [
    [65_537, 0],
    [1, 0],
    [2, BODY_BYTES_MAX + 1],
    [0x47455420, 0x2f204854], // "GET / HT", from an HTTP client
  ] as const) {
    expect(() => new FrameReader().push(prefix(header, body))).toThrow(`${header} + ${body} bytes`);
  }
});

test('a header that is no JSON object is refused', () => {
  for (const text of ['{"a":', '[]', 'null', '17']) {
    const bytes = Buffer.concat([prefix(text.length, 0), Buffer.from(text)]);
    expect(() => new FrameReader().push(bytes)).toThrow(/the header of a message is not (?:a )?JSON/);
  }
});

test('requests with fields out of range are refused, by the name of the field', () => {
  const join = { id: 0, type: 'join', minWorkers: 2, maxWorkers: 4, timeoutMs: 10 };
  expect(requestOf(frame(join))).toMatchObject({ type: 'join' });
  expect(() => requestOf(frame({ ...join, id: -1 }))).toThrow(
    'id of a message must be a whole number, not -1',
  );
  expect(() => requestOf(frame({ ...join, minWorkers: 0 }))).toThrow('minWorkers is 0; it takes');
  expect(() => requestOf(frame({ ...join, maxWorkers: 1 }))).toThrow('maxWorkers is 1; it takes');
  expect(() => requestOf(frame({ ...join, timeoutMs: 1.5 }))).toThrow('timeoutMs');
  expect(() => requestOf(frame({ id: 0, type: 'gather', seq: 0, call: 'reduce' }))).toThrow('reduce');
  expect(() => requestOf(frame({ id: 0, type: 'vote' }))).toThrow('seq');
  expect(() => requestOf(frame({ id: 0, type: 'sing' }))).toThrow('a message of type sing');
});

test('answers that make no sense are refused', () => {
  expect(answerOf(frame({ outcome: 'gathered', sizes: [1, 0, 2] }, Uint8Array.of(1, 2, 3)))).toEqual({
    outcome: 'gathered',
    parts: [Uint8Array.of(1), new Uint8Array(), Uint8Array.of(2, 3)],
  });
  for (const header of [
    { outcome: 'gathered', sizes: [1, 1] },
    { outcome: 'gathered', sizes: [4, -1] },
    { outcome: 'world', rank: 0 },
    { outcome: 'vote' },
    { outcome: 'refused', code: 'Nonsense', message: '' },
    {},
  ]) {
    expect(() => answerOf(frame(header, Uint8Array.of(1, 2, 3)))).toThrow(
      'this is not an answer of a rendezvous server:',
    );
  }
});
