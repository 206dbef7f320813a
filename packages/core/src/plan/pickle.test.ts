import { describe, expect, test } from 'vitest';
import {
  isTruncatedPickle,
  PickledDictionary,
  PickledName,
  type PickledObject,
  PickledReference,
  PickleProblem,
  readPickle,
} from './pickle.ts';

/** Text with escapes, one byte for each character. */
const read = (text: string) => readPickle(Buffer.from(text, 'latin1'));

function dictionary(items: unknown[]): PickledDictionary {
  return Object.assign(new PickledDictionary(), { items });
}

describe('values', () => {
  // As pickletools shows what Python's own pickle module writes.
  test.each<[string, string, unknown]>([
    ['None, True, False', '\x80\x04N\x88\x89\x87.', [null, true, false]],
    ['small numbers', '(K\x07M\x01\x02J\xff\xff\xff\xfft.', [7, 513, -1]],
    [
      'long numbers',
      '\x8a\x00\x8a\x02\x00\x80\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01\x87.',
      [0, -32768, 2n ** 64n],
    ],
    ['a double', 'G?\xf8\x00\x00\x00\x00\x00\x00.', 1.5],
    [
      'texts of each length',
      '(X\x02\x00\x00\x00\xc3\xbc\x8c\x01a\x8d\x01\x00\x00\x00\x00\x00\x00\x00bt.',
      ['ü', 'a', 'b'],
    ],
    [
      'bytes of each length',
      '(B\x01\x00\x00\x00aC\x01b\x8e\x01\x00\x00\x00\x00\x00\x00\x00ct.',
      ['a', 'b', 'c'].map((each) => Buffer.from(each)),
    ],
    ['tuples', ')K\x01\x85K\x01K\x02\x86\x87.', [[], [1], [1, 2]]],
    ['lists', '](K\x01K\x02eK\x03a.', [1, 2, 3]],
    ['a list from a mark', '(K\x01l.', [1]],
    ['a dictionary', '}(\x8c\x01aK\x01\x8c\x01bK\x02u\x8c\x01cK\x03s.', dictionary(['a', 1, 'b', 2, 'c', 3])],
    ['sets', '\x8f(K\x01\x90(K\x02\x91\x86.', [[1], [2]]],
    [
      'what was remembered',
      '\x8c\x01a\x94q\x05h\x00h\x05r\x09\x00\x00\x00j\x09\x00\x00\x00t.'.replace('t.', '\x87.'),
      ['a', 'a', 'a'],
    ],
    ['a value that is dropped', 'K\x01K\x020.', 1],
    ['a frame', '\x95\x02\x00\x00\x00\x00\x00\x00\x00K\x01.', 1],
    [
      'names',
      'ctorch\nSize\n\x8c\x01m\x8c\x01n\x93\x86.',
      [new PickledName('torch', 'Size'), new PickledName('m', 'n')],
    ],
    ['a reference', '\x8c\x01a\x85Q.', new PickledReference(['a'])],
  ])('%s', (_, pickle, expected) => expect(read(pickle)).toEqual(expected));

  test('objects and calls are records, and their states too', () => {
    const object = read('cm\nC\n)\x81}\x8c\x01aK\x01sb.') as PickledObject;
    expect([object.of, object.args, object.state]).toEqual([
      new PickledName('m', 'C'),
      [],
      dictionary(['a', 1]),
    ]);
    // What would remove all files.
    const call = read('cos\nsystem\n\x8c\x08rm -rf /\x85R.') as PickledObject;
    expect([call.of, call.args, call.state]).toEqual([
      new PickledName('os', 'system'),
      ['rm -rf /'],
      undefined,
    ]);
  });
});

describe('told, not thrown as a fault', () => {
  test.each<[string, string, string]>([
    ['nothing', '', 'it ends early'],
    ['no end', 'N', 'it ends early'],
    ['a number that is cut', 'J\x01', 'it ends early'],
    ['a text that is cut', 'X\xff\xff\xff\xff', 'it ends early'],
    ['a text of 2^64 bytes', '\x8d\xff\xff\xff\xff\xff\xff\xff\xff', 'it ends early'],
    ['a name that is cut', 'ctorch', 'it ends early'],
    ['text that is no UTF-8', '\x8c\x01\xff.', 'it has text that is no UTF-8'],
    ['an operation of protocol 0', 'I1\n.', 'it has the operation 73, which is not read'],
    ['a value that is not there', '.', 'it takes a value that is not there'],
    ['a mark that is not there', 't.', 'it lacks a mark'],
    ['a place that is not there', 'h\x07.', 'it recalls a value that is not there'],
    ['an item of a number', 'K\x01K\x02a.', 'it appends to a value that is no list'],
    ['a key of a list', ']K\x01K\x02s.', 'it sets items of a value that is no dictionary'],
    ['a key without a value', '}(K\x01u.', 'it sets items of a value that is no dictionary'],
    ['a state of a list', ']]b.', 'it gives a state to a value that is no object'],
    ['a class named by a number', 'K\x01K\x02\x93.', 'it names a class by a value that is no text'],
    ['too many operations', '\x80\x02'.repeat(4_000_001), 'it has more than 4000000 operations'],
    ['too many values that wait', 'N'.repeat(250_001), 'it has more than 250000 values that wait'],
    ['too many marks', '('.repeat(250_001), 'it has more than 250000 values that wait'],
    ['too much memory', '}0'.repeat(1_000_000), 'its values take more than 37748736 bytes of memory'],
    ['a class with a long name', `c${'m'.repeat(1000)}\nn\n.`, 'it names a class by more than 1000'],
  ])('%s', (_, pickle, message) => {
    expect(() => read(pickle)).toThrow(PickleProblem);
    expect(() => read(pickle)).toThrow(message);
    expect(isTruncatedPickle(Buffer.from(pickle, 'latin1'))).toBe(message === 'it ends early');
  });

  test('each beginning of a pickle is truncated, and the whole is not', () => {
    const whole = Buffer.from('\x80\x02}X\x03\0\0\0a.bctorch.x\nSize\n(K.M..t\x85Rs.', 'latin1');
    for (let length = 0; length < whole.byteLength; length += 1)
      expect(isTruncatedPickle(whole.subarray(0, length)), `${length} bytes`).toBe(true);
    expect(isTruncatedPickle(whole)).toBe(false);
  });

  test('any bytes end with a value or a PickleProblem', () => {
    let seed = 1;
    const next = () => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
      return seed >>> 16;
    };
    for (let count = 0; count < 20_000; count += 1) {
      const bytes = Buffer.from(Array.from({ length: 1 + (next() % 40) }, () => next() & 0xff));
      try {
        readPickle(bytes);
      } catch (error) {
        expect(error).toBeInstanceOf(PickleProblem);
      }
    }
  });
});
