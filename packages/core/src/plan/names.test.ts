import { expect, test } from 'vitest';
import { clashText, NameOwners } from './names.ts';

const named = (...names: readonly string[]) => names.map((name) => ({ name }));

test('two files of one name are found as they come, whichever writers they are of', () => {
  const owners = new NameOwners();
  expect(owners.add(named('a', 'b/c'), 0)).toBe(undefined);
  expect(owners.add(named('b/d'), 1)).toBe(undefined);
  const clash = owners.add(named('x', 'b/c'), 2);
  expect(clash && clashText(clash)).toBe('writers 0 and 2 both delivered "b/c"');
  expect(owners.add(named('x'), 2)).toMatchObject({ writers: [2, 2], name: 'x' });
});

test('a file where another needs a directory is found once all are there, whichever came first', () => {
  for (const [first, second] of [
    ['a/b', 'a/b/c/d'],
    ['a/b/c/d', 'a/b'],
  ] as const) {
    const owners = new NameOwners();
    owners.add(named(first, 'a/bb', 'a/b.c'), 3);
    expect(owners.findDirectory()).toBe(undefined);
    owners.add(named(second), 4);
    const clash = owners.findDirectory();
    expect(clash && clashText(clash)).toContain('delivered "a/b" as a file');
    expect(clash?.below).toBe('a/b/c/d');
  }
});

test('an empty directory stands in the way of a file of its name, or of a file above it, and of no other', () => {
  for (const [file, directory] of [
    ['a/b', 'a/b'],
    ['a/b', 'a/b/c/d'],
  ] as const) {
    const owners = new NameOwners();
    owners.add(named(file, 'a/c'), 0);
    owners.addDirectories(named(directory), 1);
    const clash = owners.findDirectory();
    expect(clash && clashText(clash)).toBe(
      `writer 0 delivered "a/b" as a file, writer 1 as a directory ("${directory}/")`,
    );
  }
});

test('several writers may have one empty directory, and others files in it', () => {
  const owners = new NameOwners();
  owners.add(named('a/b/1', 'a/b.c'), 0);
  for (const writer of [1, 2]) owners.addDirectories(named('a/b', 'a/d'), writer);
  expect(owners.findDirectory()).toBe(undefined);
});
