import { crc32c } from '../crc32c.ts';
import { type Check, check } from './check.ts';
import { expectBytes, expectEqual, expectRejection, expectTrue, inOrder } from './expect.ts';
import type { Scratch } from './scratch.ts';

/** Names that careless handling of URLs, XML or paths would change. */
const UNUSUAL_NAMES: readonly string[] = [
  'with space',
  ' leading and trailing ',
  'plus+and&and=and;and,',
  'percent%20escape',
  'percent%',
  'question?mark#hash',
  'quote\'s "and" `ticks`',
  '<tag>&amp;',
  'brackets[1]{2}(3)*',
  'back\\slash|pipe^caret~tilde',
  'colon:at@dollar$bang!',
  '.hidden',
  '..dots',
  '-dash_underscore',
  'umlaut-äöü-ß',
  'cyrillic-модель',
  'han-模型',
  'emoji-🧮',
  'a/deep/er/path.with.dots/file.bin',
];

/** Pairs that become equal if a store decodes or normalises names. */
const LOOK_ALIKES: readonly (readonly [string, string])[] = [
  ['a b', 'a+b'],
  ['c d', 'c%20d'],
  ['e%2Ff', 'e%252Ff'],
  ['caf\u00e9', 'cafe\u0301'],
];

export const keyChecks: readonly Check[] = [
  check('keys: spaces, signs, escapes and any letter come back exactly', async (t) => {
    for (const name of UNUSUAL_NAMES) await roundTrip(t, name);
    const sorted = inOrder(UNUSUAL_NAMES);
    expectEqual(await t.listNames(), sorted, 'a listing of unusual keys');
    for (const name of UNUSUAL_NAMES) await deletesOnly(t, name);
  }),

  check('keys: unusual keys can be prefixes and startAfter', async (t) => {
    await t.createAll(['a b/1', 'a b/2', 'a+b/1', 'a%20b/1', 'ä/1', 'ä/2']);
    expectEqual(await t.listNames('a b/'), ['a b/1', 'a b/2'], "a listing of 'a b/'");
    expectEqual(await t.listNames('a+'), ['a+b/1'], "a listing of 'a+'");
    expectEqual(await t.listNames('ä', { startAfter: 'ä/1' }), ['ä/2'], "a listing of 'ä' after 'ä/1'");
  }),

  check('keys: an upload takes unusual keys too', async (t) => {
    const bytes = t.random.bytes(Math.min(100, t.partSizeBytes));
    for (const name of ['a b+c%20d', 'модель/🧮?#.bin']) {
      const upload = await t.beginUpload(name);
      expectEqual(upload.key, t.key(name), 'key of the upload');
      const receipt = await upload.putPart(0, bytes, { crc32c: crc32c(bytes) });
      await upload.complete([receipt], { sizeBytes: bytes.byteLength, crc32c: crc32c(bytes) });
      const found = await t.store.get(t.key(name), { maxBytes: 100 });
      expectBytes(found.bytes, bytes, `the object ${name}`);
    }
  }),

  check('keys: names that look alike are different objects', async (t) => {
    for (const pair of LOOK_ALIKES) {
      for (const name of pair) await t.create(name, new TextEncoder().encode(name));
    }
    for (const name of LOOK_ALIKES.flat()) {
      const { bytes } = await t.store.get(t.key(name), { maxBytes: 100 });
      expectEqual(new TextDecoder().decode(bytes), name, `the object ${JSON.stringify(name)}`);
    }
  }),

  check('keys: names that differ only in case are different objects', async (t) => {
    await t.create('model.bin', Uint8Array.of(1));
    await t.create('Model.bin', Uint8Array.of(2));
    expectEqual(await t.listNames(), ['Model.bin', 'model.bin'], 'objects');
    expectEqual([...(await t.store.get(t.key('model.bin'), { maxBytes: 1 })).bytes], [1], 'model.bin');
  }),

  check('keys: segments of 255 bytes and keys of 1,024 bytes are taken', async (t) => {
    const segment = 'ä'.repeat(127);
    const deep = deepName(t, (await longestKeyBytes(t)) - 1);
    // Pairs that differ only in the last byte: a store must not truncate them.
    const names = [`${segment}x`, `${segment}y`, `${deep}x`, `${deep}y`];
    for (const name of names) await roundTrip(t, name);
    expectEqual(await t.listNames(), inOrder(names), 'a listing of long keys');
  }),

  check('keys: a key outside the grammar is InvalidArgument and reaches nothing', async (t) => {
    const names = [
      '',
      '/a',
      'a/',
      'a//b',
      '.',
      '..',
      'a/../b',
      'a/./b',
      '../../escaped',
      'a\0b',
      'a\nb',
      'a\ud800b',
      's'.repeat(256),
    ];
    const keys = [
      '',
      '/',
      '..',
      '../escaped',
      '/absolute',
      `${'k/'.repeat(512)}k`,
      ...names.map((name) => t.key(name)),
    ];
    const bytes = t.creatableBytes(4);
    for (const key of keys) {
      const shown = JSON.stringify(key);
      await expectRejection(() => t.store.create(key, bytes), 'InvalidArgument', `create of key ${shown}`);
      await expectRejection(() => t.store.head(key), 'InvalidArgument', `head of key ${shown}`);
      await expectRejection(
        () => t.store.get(key, { maxBytes: 4 }),
        'InvalidArgument',
        `get of key ${shown}`,
      );
      await expectRejection(
        () => t.store.readInto(key, 0, bytes),
        'InvalidArgument',
        `readInto of key ${shown}`,
      );
      const begin = () => t.store.beginUpload(key, { partSizeBytes: t.partSizeBytes });
      await expectRejection(begin, 'InvalidArgument', `beginUpload of key ${shown}`);
    }
    expectEqual(await t.listNames(), [], 'objects');
  }),

  check("keys: what an adapter keeps for itself ('.holdfast-') is never listed", async (t) => {
    await t.create('a');
    const upload = await t.beginUpload('b');
    await upload.putPart(0, Uint8Array.of(1), { crc32c: crc32c(Uint8Array.of(1)) });
    for await (const page of t.store.list('.holdfast-')) {
      expectEqual(page.objects, [], "objects below '.holdfast-'");
    }
    expectEqual(await t.listNames(), ['a'], 'objects');
  }),
];

/**
 * Limit of a key, including the store's own prefix, which is at most `OWN_PREFIX_BYTES_MAX` long in
 * our adapters.
 */
const KEY_BYTES_MAX = 1024;
const OWN_PREFIX_BYTES_MAX = 512;

/**
 * Longest key that the store accepts: given, or found by trying. A store rejects a key that is too
 * long before it sends anything.
 */
async function longestKeyBytes(t: Scratch): Promise<number> {
  if (t.keyBytesMax !== undefined) return t.keyBytesMax;
  let [taken, refused] = [KEY_BYTES_MAX - OWN_PREFIX_BYTES_MAX - 1, KEY_BYTES_MAX + 1];
  while (refused - taken > 1) {
    const sizeBytes = (taken + refused) >> 1;
    const look = () => t.store.head(t.key(deepName(t, sizeBytes)));
    const { code } = await expectRejection(look, ['NotFound', 'InvalidArgument'], 'head of a long key');
    if (code === 'NotFound') taken = sizeBytes;
    else refused = sizeBytes;
  }
  return taken;
}

/** A name of several segments whose key has this size. */
function deepName(t: Scratch, keySizeBytes: number): string {
  const sizeBytes = keySizeBytes - new TextEncoder().encode(t.prefix).byteLength;
  return `${'s'.repeat(200)}/`.repeat(6).slice(0, sizeBytes).replace(/\/$/, 's');
}

async function roundTrip(t: Scratch, name: string): Promise<void> {
  const key = t.key(name);
  const bytes = t.creatableBytes(20);
  const info = await t.create(name, bytes);
  expectEqual(info.key, key, 'key that create answers');
  expectEqual((await t.store.head(key)).key, key, 'key that head answers');
  const object = await t.store.get(key, { maxBytes: 20 });
  expectEqual(object.key, key, 'key that get answers');
  expectBytes(object.bytes, bytes, `bytes of ${key}`);
  const buffer = new Uint8Array(bytes.byteLength);
  await t.store.readInto(key, 0, buffer, { etag: info.etag });
  expectBytes(buffer, bytes, `bytes of ${key} by readInto`);
}

async function deletesOnly(t: Scratch, name: string): Promise<void> {
  const before = await t.listNames();
  const results = await t.store.deleteMany([t.key(name)]);
  expectEqual(results, [{ key: t.key(name) }], `results of deleting ${name}`);
  const after = await t.listNames();
  expectTrue(
    !after.includes(name) && after.length === before.length - 1,
    `objects left after deleting ${name}`,
    'all others',
    after,
  );
}
