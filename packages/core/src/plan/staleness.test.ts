import { describe, expect, test } from 'vitest';
import { type Compared, checkGlobs, findSuspicions } from './staleness.ts';

const NONE = new Uint8Array(0);

/** `content` stands for the bytes. */
function file(name: string, sizeBytes: number, content: number, changes: Partial<Compared> = {}): Compared {
  const blake3 = new Uint8Array(32).fill(content);
  const partCrc32c = new Uint8Array(4).fill(content);
  return { name, sizeBytes, crc32c: content, partSizeBytes: 100, partCrc32c, blake3, ...changes };
}

function suspicions(
  now: readonly Compared[],
  before: readonly Compared[],
  globs?: readonly string[],
): string[] {
  return findSuspicions(now, { version: 7n, files: before }, globs);
}

describe('without globs', () => {
  test('files of which not one has changed are suspect, together', () => {
    const files = [file('a', 10, 1), file('b', 20, 2)];
    expect(suspicions(files, [...files, file('of another', 5, 3)])).toEqual([
      'none of the 2 files has changed since version 7',
    ]);
    expect(suspicions([file('a', 10, 1)], files)).toEqual([
      'the only file, a, has not changed since version 7',
    ]);
  });

  test.each<[string, Compared[], Compared[]]>([
    ['one has changed', [file('a', 10, 1), file('b', 20, 3)], [file('a', 10, 1), file('b', 20, 2)]],
    ['one is new', [file('a', 10, 1), file('b', 20, 2)], [file('a', 10, 1)]],
    ['it has another name', [file('b', 10, 1)], [file('a', 10, 1)]],
    ['all are empty', [file('a', 0, 0)], [file('a', 0, 0)]],
    ['there was nothing before', [file('a', 10, 1)], []],
  ])('nothing is suspect: %s', (_, now, before) => {
    expect(suspicions(now, before)).toEqual([]);
  });

  test('a change of the size alone, or of the CRC32C alone, is one', () => {
    expect(suspicions([file('a', 10, 1)], [file('a', 11, 1)])).toEqual([]);
    expect(suspicions([file('a', 10, 1, { crc32c: 9 })], [file('a', 10, 1)])).toEqual([]);
  });

  test('equal CRC32C are not enough where both have a BLAKE3; else parts are compared, if they are equally long', () => {
    const now = file('a', 10, 1);
    expect(suspicions([now], [file('a', 10, 1, { blake3: new Uint8Array(32) })])).toEqual([]);
    expect(suspicions([now], [file('a', 10, 1, { blake3: NONE })])).toHaveLength(1);
    const otherParts = { blake3: NONE, partCrc32c: new Uint8Array(4) };
    expect(suspicions([now], [file('a', 10, 1, otherParts)])).toEqual([]);
    expect(suspicions([now], [file('a', 10, 1, { ...otherParts, partSizeBytes: 50 })])).toHaveLength(1);
  });
});

describe('with globs', () => {
  const before = [file('model.pt', 10, 1), file('optimizer.pt', 10, 2), file('config.json', 10, 3)];

  test.each<[string[], string]>([
    [['*.pt'], 'model.pt, optimizer.pt'],
    [['*.pt', '!optimizer*'], 'model.pt'],
    [['!*.json'], 'model.pt, optimizer.pt'],
    [['**'], 'model.pt, optimizer.pt, config.json'],
  ])('%j: each such file that has not changed is named', (globs, names) => {
    expect(suspicions(before, before, globs)).toEqual([
      `should have changed since version 7 and did not: ${names}`,
    ]);
  });

  test('one that has not changed is enough', () => {
    const now = [file('model.pt', 10, 1), file('optimizer.pt', 10, 9)];
    expect(suspicions(now, before, ['*.pt'])).toEqual([
      'should have changed since version 7 and did not: model.pt',
    ]);
  });

  test('files that may stay as they are make nothing suspect, even all of them', () => {
    expect(suspicions(before, before, ['*.bin'])).toEqual([]);
  });

  test('at most three are named, then a count', () => {
    const many = ['a', 'b', 'c', 'd', 'e'].map((name) => file(name, 10, 1));
    expect(suspicions(many, many, ['*'])).toEqual([
      'should have changed since version 7 and did not: a, b, c and 2 more',
    ]);
  });

  test('no globs at all are as none given', () => {
    expect(suspicions(before, before, [])).toEqual(['none of the 3 files has changed since version 7']);
  });

  test('what is no glob is refused by name', () => {
    for (const glob of ['', '!', 5 as unknown as string])
      expect(() => checkGlobs(['*', glob])).toThrow(`${JSON.stringify(glob)} is not a glob`);
    expect(() => checkGlobs(['**/*.pt', '!x'])).not.toThrow();
  });
});

describe('sizes', () => {
  const before = [file('a', 100, 1), file('b', 1000, 2)];

  test('all files that more than doubled or halved are suspect, whatever the globs', () => {
    const now = [file('a', 201, 3), file('b', 499, 4), file('new', 1, 5)];
    const said = [
      'all 2 files have more than doubled or halved their sizes since version 7: a from 100 to 201 bytes',
    ];
    expect(suspicions(now, before)).toEqual(said);
    expect(suspicions(now, before, ['*.none'])).toEqual(said);
    expect(suspicions([file('a', 0, 3)], before)).toEqual([
      'a has more than doubled or halved its size since version 7, from 100 to 0 bytes',
    ]);
  });

  test.each<[string, Compared[]]>([
    ['exactly doubled', [file('a', 200, 3), file('b', 2001, 4)]],
    ['one kept its size', [file('a', 201, 3), file('b', 1000, 4)]],
    ['none of them was there', [file('c', 5, 3)]],
  ])('nothing is suspect: %s', (_, now) => {
    expect(suspicions(now, before)).toEqual([]);
  });
});
