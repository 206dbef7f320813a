import { describe, expect, test } from 'vitest';
import { isCheckpointError } from '../contract/index.ts';
import { checkLogicalName, checkLogicalNames, LOGICAL_NAME_BYTES_MAX } from './logical-name.ts';

function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (isCheckpointError(error, 'InvalidArgument')) return error.message;
    throw error;
  }
  throw new Error('it was accepted');
}

/** A name of maximum length, in segments of 200 bytes. */
const longest = Array.from({ length: 10 }, () => 'x'.repeat(200))
  .join('/')
  .slice(0, LOGICAL_NAME_BYTES_MAX);

test.each([
  'a',
  'variables-0-of-4.chkpt',
  'model/layers.0/weights.bin',
  '.hidden/...',
  '..a/a..',
  'with space, "quotes" and: colons?',
  'grüße/模型/🙂.bin',
  '-rf',
  'con',
  '__proto__/constructor',
  'x'.repeat(255),
  'ü'.repeat(127),
  longest,
])('%s is a logical name', (name) => {
  expect(() => checkLogicalName(name)).not.toThrow();
});

test.each([
  ['', 'it is empty'],
  ['/etc/passwd', 'it is absolute'],
  ['//a', 'it is absolute'],
  ['a//b', 'it has an empty segment'],
  ['a/', 'it has an empty segment'],
  ['.', 'it has a segment "."'],
  ['..', 'it has a segment ".."'],
  ['../a', 'it has a segment ".."'],
  ['a/../../b', 'it has a segment ".."'],
  ['a/./b', 'it has a segment "."'],
  ['a\0b', 'it holds NUL'],
  ['a\nb', 'it holds a control character'],
  ['a\x7f', 'it holds a control character'],
  ['a\u0085', 'it holds a control character'],
  ['a\ufffe', 'it holds U+FFFE or U+FFFF'],
  ['\uffff/b', 'it holds U+FFFE or U+FFFF'],
  ['a\\b', 'it holds a backslash'],
  ['..\\..\\windows', 'it holds a backslash'],
  ['a\ud800', 'it holds half of a surrogate pair'],
  ['\udc00/b', 'it holds half of a surrogate pair'],
  ['x'.repeat(256), 'it has a segment of more than 255 bytes'],
  [`a/${'ü'.repeat(128)}`, 'it has a segment of more than 255 bytes'],
  [
    `${longest}x`,
    `it has ${LOGICAL_NAME_BYTES_MAX + 1} bytes of UTF-8; the most is ${LOGICAL_NAME_BYTES_MAX}`,
  ],
])('%j is refused and the message says why', (name, problem) => {
  const message = refusal(() => checkLogicalName(name));
  expect(message).toMatch(/^file name ".*" cannot be used: /);
  expect(message).toContain(problem);
});

test('a message is one line of bounded length, whatever the name', () => {
  const message = refusal(() => checkLogicalName(`\n\x1b[2J${'x'.repeat(1_000_000)}`));
  expect(message.length).toBeLessThan(1000);
  expect(message).not.toMatch(/\p{Cc}/u);
});

describe('checkLogicalNames', () => {
  test('names beside and below each other are fine', () => {
    expect(() => checkLogicalNames(['a/b', 'a/c', 'a.b', 'ab', 'b/a'])).not.toThrow();
  });

  test('each must be a name', () => {
    expect(refusal(() => checkLogicalNames(['a', '../b']))).toContain('"../b" cannot be used');
  });

  test('two alike are refused', () => {
    expect(refusal(() => checkLogicalNames(['a/b', 'c', 'a/b']))).toBe('two files have the name "a/b"');
  });

  test.each([
    [['a', 'a/b'], '"a/b" needs "a" as a directory'],
    [['a/b/c/d', 'a/b'], '"a/b/c/d" needs "a/b" as a directory'],
  ])('%j: a file that another needs as a directory is refused', (names, message) => {
    expect(refusal(() => checkLogicalNames(names))).toContain(message);
  });

  test('100,000 names are checked in about a second', () => {
    const names = Array.from({ length: 100_000 }, (_, index) => `dir-${index % 100}/file-${index}.bin`);
    const start = performance.now();
    checkLogicalNames(names);
    expect(performance.now() - start).toBeLessThan(5000);
  });
});

test('an empty directory is refused where a file has its name or that of one above it; others may be alike', () => {
  const problemOf = (files: readonly string[], directories: readonly string[]) => {
    try {
      checkLogicalNames(files, directories);
      return '';
    } catch (error) {
      return (error as Error).message;
    }
  };
  expect(problemOf(['a/b', 'c'], ['a', 'd/e', 'd/e', 'a/b.c'])).toBe('');
  expect(problemOf(['a/b'], ['a/b'])).toBe('"a/b" is both a file and an empty directory');
  expect(problemOf(['a/b'], ['a/b/c/d'])).toBe(
    'directory name "a/b/c/d" needs "a/b" as a directory, but that is a file too',
  );
  expect(problemOf(['a'], ['b/../c'])).toContain('it has a segment ".."');
});
