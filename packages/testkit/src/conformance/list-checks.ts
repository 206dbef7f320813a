import { expectListing } from '../trials/list-trials.ts';
import { type Check, check } from './check.ts';
import { expectEqual, expectTrue, inOrder, settle, unsettle } from './expect.ts';
import type { Scratch } from './scratch.ts';

/** For a store with larger pages, listings across the end of a page are not tested. */
const OBJECTS_MAX = 2000;

export const listChecks: readonly Check[] = [
  check('list: keys come in the order of their UTF-8 bytes', async (t) => {
    // '-' and '.' sort before '/', '0' after it. U+FFFD sorts before U+10000. UTF-16 reverses these
    // two.
    const names = [
      'a',
      'a-b',
      'a.b',
      'b/c',
      'b-c',
      'b.c',
      'b0',
      'b/',
      'B',
      'Z',
      'é',
      'z',
      '\u{10000}',
      '\ufffd',
      '\uffee',
      '🧮/1',
      '模/1',
      '~',
      '!',
      ' ',
    ].filter((name) => !name.endsWith('/'));
    await t.createAll(t.random.shuffle(names));
    await expectListing(t, await t.client(), '', inOrder(names));
  }),

  check('list: directories are no borders: keys of all depths come in one order', async (t) => {
    const names = [
      'd-a/x',
      'd.x',
      'd/a/1',
      'd/a-1',
      'd/a.1/z',
      'd/a0',
      'd/b',
      'd0/x',
      'd/a/10/y',
      'd/a/1-',
      'c/z',
    ];
    await t.createAll(t.random.shuffle(names));
    const sorted = inOrder(names);
    await expectListing(t, await t.client(), '', sorted);
    for (const startAfter of [...sorted, 'd', 'd/', 'd/a', 'd/a/', 'd/a/1/', 'd/a/2', 'e', 'c', 'd-']) {
      const expected = sorted.filter(
        (name) => Buffer.compare(Buffer.from(name), Buffer.from(startAfter)) > 0,
      );
      expectEqual(await t.listNames('', { startAfter }), expected, `a listing after ${startAfter}`);
    }
  }),

  check(
    "list: a prefix is a text, not a directory, and 'version_1/' never matches 'version_10/'",
    async (t) => {
      const names = [
        'version_1/a',
        'version_1/b',
        'version_1-x',
        'version_10/a',
        'version_2/a',
        'version_1/c/d',
      ];
      await t.createAll(names);
      const cases: Record<string, string[]> = {
        'version_1/': ['version_1/a', 'version_1/b', 'version_1/c/d'],
        version_1: ['version_1-x', 'version_1/a', 'version_1/b', 'version_1/c/d', 'version_10/a'],
        'version_1/c': ['version_1/c/d'],
        'version_1/c/d': ['version_1/c/d'],
        'version_1/c/d/': [],
        'version_2/a': ['version_2/a'],
        ver: inOrder(names),
        'version_3/': [],
        'missing/dir/': [],
        Version: [],
      };
      for (const [prefix, expected] of Object.entries(cases)) {
        expectEqual(await t.listNames(prefix), expected, `a listing of ${prefix}`);
      }
    },
  ),

  check('list: no match is one empty page or none', async (t) => {
    const pages = await t.listPages('nothing/');
    expectTrue(
      pages.flat().length === 0 && pages.length <= 1,
      'a listing of nothing',
      'one empty page or none',
      pages,
    );
  }),

  check('list: startAfter is exclusive and need not exist', async (t) => {
    await t.createAll(['p/a', 'p/b', 'p/c', 'q/a']);
    const cases: [prefix: string, startAfter: string, expected: string[]][] = [
      ['p/', 'p/a', ['p/b', 'p/c']],
      ['p/', 'p/aa', ['p/b', 'p/c']],
      ['p/', 'p/b', ['p/c']],
      ['p/', 'p/c', []],
      ['p/', 'p/', ['p/a', 'p/b', 'p/c']],
      ['p/', 'a', ['p/a', 'p/b', 'p/c']], // Before the prefix.
      ['p/', 'q', []], // After the prefix.
      ['p', 'p/b', ['p/c']],
      ['', 'p/b', ['p/c', 'q/a']],
      ['', 'p/zzz', ['q/a']],
    ];
    for (const [prefix, startAfter, expected] of cases) {
      expectEqual(
        await t.listNames(prefix, { startAfter }),
        expected,
        `a listing of '${prefix}' after '${startAfter}'`,
      );
    }
  }),

  check('list: pages hold at most maxListKeys keys and together every key once', async (t) => {
    const { maxListKeys } = t.capabilities;
    const count = Math.min(maxListKeys, OBJECTS_MAX) + 5;
    const names = Array.from({ length: count }, (_, index) => `${String(index).padStart(5, '0')}`);
    await t.createAll(names);
    const pages = await t.listPages();
    for (const page of pages) {
      expectTrue(page.length <= maxListKeys, 'keys of a page', `at most ${maxListKeys}`, page.length);
    }
    expectEqual(pages.flat(), names, 'all pages together');
    const startAfter = names[count - 4] as string;
    expectEqual(await t.listNames('', { startAfter }), names.slice(-3), `a listing after ${startAfter}`);
    await t.store.deleteMany(names.slice(5).map((name) => t.key(name)));
    expectEqual(await t.listNames(), names.slice(0, 5), 'what is left after a delete');
  }),

  check('list: what was created before its first page is shown, whoever created it', async (t) => {
    const other = await t.open();
    for (let round = 0; round < 10; round++) {
      const listing = t.store.list(t.prefix); // Nothing is requested yet.
      const key = t.key(`round-${round}`);
      await other.create(key, t.creatableBytes(8));
      const keys: string[] = [];
      for await (const page of listing) keys.push(...page.objects.map((object) => object.key));
      expectTrue(keys.includes(key), 'a listing after a create by another client', key, keys);
    }
  }),

  check(
    'list: while others create and delete, keys stay in order and none comes twice or is missing',
    async (t) => {
      const lasting = Array.from({ length: 40 }, (_, index) => `m-${index + 10}`);
      const passing = Array.from({ length: 20 }, (_, index) => `m-${index + 10}-passing`);
      await t.createAll([...lasting, ...passing]);
      let isDone = false;
      const changing = async () => {
        for (const name of passing) {
          await t.store.deleteMany([t.key(name)]);
          await t.create(`${name}-new`);
        }
      };
      const changes = settle(changing).finally(() => {
        isDone = true;
      });
      do {
        const names = await t.listNames();
        const sorted = inOrder([...new Set(names)]);
        expectEqual(names, sorted, 'a listing while others create and delete');
        const shown = new Set(names);
        const missing = lasting.filter((name) => !shown.has(name));
        expectEqual(missing, [], 'objects that no call touched and a listing does not show');
      } while (!isDone);
      unsettle(await changes);
    },
  ),

  check('list: it can be left early and taken up again', async (t) => {
    await t.createAll(['a', 'b', 'c']);
    for await (const page of t.store.list(t.prefix)) {
      expectTrue(page.objects.length > 0, 'keys of the first page', 'at least one', page.objects.length);
      break;
    }
    const listing = t.store.list(t.prefix)[Symbol.asyncIterator]();
    await listing.return?.();
    expectEqual(await t.listNames('', { startAfter: 'a' }), ['b', 'c'], 'a listing after one was left');
  }),

  check('listDirectories: what comes before the next slash, each once, whatever lies in it', async (t) => {
    if (t.store.listDirectories === undefined) return;
    const names = ['d/x', 'd/y/z', 'd.x/1', 'd-a/x/y/z', 'file', 'é +%/x', '模/a', 'dot./x', 'UP/x', 'up/x'];
    // Servers for tests put fewer names into a page.
    const many = Array.from({ length: 60 }, (_, index) => String(index + 10));
    await t.createAll(t.random.shuffle([...names, ...many.map((name) => `many/${name}/x`)]));
    const cases: Record<string, string[]> = {
      '': ['d', 'd.x', 'd-a', 'é +%', '模', 'dot.', 'UP', 'up', 'many'],
      'd/': ['y'],
      'd-a/': ['x'],
      'd-a/x/': ['y'],
      'd/y/': [],
      'many/': many,
      'none/': [],
    };
    for (const [prefix, expected] of Object.entries(cases)) {
      const found = await directoriesOf(t, prefix);
      expectEqual(inOrder(found), inOrder(expected), `directories below "${prefix}"`);
    }
  }),
];

async function directoriesOf(t: Scratch, prefix: string): Promise<string[]> {
  const found: string[] = [];
  for await (const names of t.store.listDirectories?.(t.key(prefix)) ?? []) found.push(...names);
  return found;
}
