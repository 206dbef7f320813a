import { crc32c } from '../crc32c.ts';
import { tryEmptyObject, tryToCreateTwice } from '../trials/create-trials.ts';
import { tryToListAfterWrite } from '../trials/list-trials.ts';
import { type SeenObject, tryToReadAfterWrite } from '../trials/read-trials.ts';
import { type Check, check } from './check.ts';
import { expectBytes, expectEqual, expectTrue } from './expect.ts';
import { watchForParts } from './observe-object.ts';
import type { Scratch } from './scratch.ts';

const MIB = 1024 * 1024;

/**
 * Data whose CRC-32C has the highest bit set, or zero as the first byte: signs and leading zeros
 * are easily lost.
 */
const CHECKSUM_SAMPLES: readonly Uint8Array[] = [
  new Uint8Array(),
  new TextEncoder().encode('123456789'), // 0xe3069283
  Uint8Array.of(0x00), // 0x527d5351
  findBytes((crc) => crc < 2 ** 24),
  findBytes((crc) => crc >= 2 ** 31),
];

export const createChecks: readonly Check[] = [
  check('create: the object has the key, size and bytes that were sent', async (t) => {
    await tryEmptyObject(t);
    for (const size of [1, 4095, 4096, 4097, 100_000, MIB]) {
      const bytes = t.creatableBytes(size);
      const info = await t.create(`size-${size}`, bytes);
      const key = t.key(`size-${size}`);
      expectEqual([info.key, info.sizeBytes], [key, bytes.byteLength], 'key and size that create answers');
      const object = await t.store.get(key, { maxBytes: bytes.byteLength });
      expectEqual([object.key, object.sizeBytes], [key, bytes.byteLength], 'key and size that get answers');
      expectBytes(object.bytes, bytes, `an object of ${bytes.byteLength} bytes`);
    }
  }),

  check('create: right checksums are taken, whatever their bits', async (t) => {
    for (const [index, bytes] of CHECKSUM_SAMPLES.entries()) await t.create(`sample-${index}`, bytes);
    expectEqual((await t.listNames()).length, CHECKSUM_SAMPLES.length, 'count of objects');
    await t.store.create(t.key('without'), t.creatableBytes(10));
  }),

  check('create: bytes may be a view into a larger buffer', async (t) => {
    const buffer = t.creatableBytes(3000);
    const view = buffer.subarray(buffer.byteLength >> 2, buffer.byteLength >> 1);
    await t.create('view', view);
    const { bytes } = await t.store.get(t.key('view'), { maxBytes: view.byteLength });
    expectBytes(bytes, view, 'an object made from a view');
  }),

  check('create: a second create of the same key is AlreadyExists and changes nothing', (t) =>
    tryToCreateTwice(t, [['no bytes', new Uint8Array(0)]]),
  ),

  check(
    'create: once it has resolved, every client sees the object by head, get, readInto and list',
    async (t) => {
      await tryToListAfterWrite(t, 10);
      await tryToReadAfterWrite(t, 10, (seen) => expectSeen(t, seen));
    },
  ),

  check('create: no reader sees a part of an object', async (t) => {
    const other = await t.open();
    const bytes = t.creatableBytes(2 * MIB);
    for (let round = 0; round < 8; round++) {
      const name = `round-${round}`;
      const created = t.create(name, bytes);
      await watchForParts({ store: other, key: t.key(name), bytes, until: created });
      await created;
    }
  }),

  check('create: the caller may use its buffer again once the call has ended', async (t) => {
    for (const size of [10, 100_000, MIB]) {
      const bytes = t.creatableBytes(size);
      const sent = bytes.slice();
      await t.create(`size-${size}`, sent);
      sent.fill(0xee);
      const { bytes: found } = await t.store.get(t.key(`size-${size}`), { maxBytes: size });
      expectBytes(found, bytes, `an object of ${size} bytes whose buffer was used again`);
    }
  }),

  check(
    "create: createdAtMs is the store's time in milliseconds, and head, get and list agree on it",
    async (t) => {
      const { createdAtMs } = await t.create('a');
      const views = [await t.store.head(t.key('a')), await t.store.get(t.key('a'), { maxBytes: 16 })];
      for await (const page of t.store.list(t.key('a'))) {
        views.push(...(page.objects as typeof views));
        const ageMs = page.storeTimeMs - createdAtMs;
        // Some providers report whole seconds only.
        expectTrue(
          ageMs > -2000 && ageMs < 10 * 60_000,
          'age of a new object by storeTimeMs',
          'from 0 to some seconds',
          ageMs,
        );
      }
      expectEqual(views.length, 3, 'count of views of the object');
      for (const view of views) {
        const difference = Math.abs(view.createdAtMs - createdAtMs);
        expectTrue(difference < 2000, 'createdAtMs', `about ${createdAtMs}`, view.createdAtMs);
      }
    },
  ),
];

/** In the ways that the trial does not look at. */
async function expectSeen(t: Scratch, { key, bytes, reader }: SeenObject): Promise<void> {
  const what = 'of an object just created, seen by another client';
  const buffer = new Uint8Array(bytes.byteLength);
  expectEqual(await reader.readInto(key, 0, buffer), bytes.byteLength, `count of bytes ${what}`);
  expectBytes(buffer, bytes, `bytes by readInto ${what}`);
  const keys = await reader.keys(t.prefix);
  expectTrue(keys.includes(key), `a listing ${what}`, key, keys);
  expectEqual(await reader.createAgain(key, bytes), 'exists', 'another create by another client');
  const { etag } = await t.store.head(key);
  expectEqual((await reader.head(key)).etag, etag, 'etag that another client sees');
}

/** Finds the first number whose four bytes have the wanted checksum. */
function findBytes(isWanted: (crc: number) => boolean): Uint8Array {
  for (let n = 0; ; n++) {
    const bytes = new Uint8Array(Uint32Array.of(n).buffer);
    if (isWanted(crc32c(bytes))) return bytes;
  }
}
