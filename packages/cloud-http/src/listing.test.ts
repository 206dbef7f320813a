import type { ListPage, ObjectInfo } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import {
  type BucketPage,
  listDirectoryNames,
  listInOrder,
  nextPosition,
  type PageRequest,
} from './listing.ts';

const object = (key: string): ObjectInfo => ({ key, sizeBytes: 1, etag: 'e', createdAtMs: 0 });

async function listed(pages: readonly BucketPage[], startAfter?: string) {
  const requests: PageRequest[] = [];
  const page = async (request: PageRequest) => {
    requests.push(request);
    return pages[requests.length - 1] as BucketPage;
  };
  const found: ListPage[] = [];
  for await (const each of listInOrder({ root: 'run/', page }, 'v/', { startAfter })) found.push(each);
  return { requests, names: found.map(({ objects }) => objects.map(({ key }) => key)) };
}

describe('listInOrder', () => {
  it('asks below the root, goes on where a page says, and gives keys', async () => {
    const { requests, names } = await listed(
      [
        { objects: [object('run/v/a')], next: 'p2', storeTimeMs: 0 },
        { objects: [object('run/v/b')], next: undefined, storeTimeMs: 0 },
      ],
      'v/0',
    );
    expect(requests).toEqual([
      { prefix: 'run/v/', startAfter: 'run/v/0', position: undefined },
      { prefix: 'run/v/', startAfter: 'run/v/0', position: 'p2' },
    ]);
    expect(names).toEqual([['v/a'], ['v/b']]);
  });

  it('leaves out the key to start after, one that a page repeats, and names that are no keys', async () => {
    const { names } = await listed(
      [
        { objects: ['run/v/a', 'run/v/b', 'run/v/'].map(object), next: 'p2', storeTimeMs: 0 },
        { objects: ['run/v/b', 'run/v/c'].map(object), next: undefined, storeTimeMs: 0 },
      ],
      'v/a',
    );
    expect(names).toEqual([['v/b'], ['v/c']]);
  });

  it('nothing is one empty page, and later pages without objects are left out', async () => {
    const empty = { objects: [], next: undefined, storeTimeMs: 5 };
    expect((await listed([empty])).names).toEqual([[]]);
    expect((await listed([{ ...empty, next: 'p2' }, empty])).names).toEqual([[]]);
  });
});

describe('listDirectoryNames', () => {
  it('asks with a delimiter, and leaves out repeated names and those that are no keys', async () => {
    const requests: PageRequest[] = [];
    const pages = [['run/v/a/', 'run/v/b/', 'run/v//'], ['run/v/b/', 'run/v/c/'], []];
    const page = async (request: PageRequest) => {
      const prefixes = pages[requests.length];
      requests.push(request);
      const next = requests.length < pages.length ? `p${requests.length}` : undefined;
      return { objects: [object('run/v/file')], prefixes, next, storeTimeMs: 0 };
    };
    const found: (readonly string[])[] = [];
    for await (const names of listDirectoryNames({ root: 'run/', page }, 'v/')) found.push(names);
    expect(found).toEqual([['a', 'b'], ['c'], []]);
    expect(requests.map(({ prefix, delimiter, position }) => [prefix, delimiter, position])).toEqual([
      ['run/v/', '/', undefined],
      ['run/v/', '/', 'p1'],
      ['run/v/', '/', 'p2'],
    ]);
  });
});

describe('nextPosition', () => {
  it('refuses a page that is its own next one', () => {
    expect(nextPosition('a', 'b')).toBe('b');
    expect(nextPosition('a', undefined)).toBeUndefined();
    expect(() => nextPosition('a', 'a')).toThrow('does not name the next one');
  });
});
