import { tryToDelete, tryToListAfterDelete } from '../trials/delete-trials.ts';
import { type Check, check } from './check.ts';
import { expectEqual, expectRejection } from './expect.ts';

/** A store that takes more keys in one request is tested with this many, and 3 more. */
const KEYS_MAX = 2000;

export const deleteChecks: readonly Check[] = [
  check('deleteMany: deleted objects are gone for every client', async (t) => {
    const gone = await tryToDelete(t);
    const other = await t.open();
    for (const store of [t.store, other]) {
      for (const key of gone) {
        await expectRejection(() => store.head(key), 'NotFound', 'head of a deleted object');
        await expectRejection(() => store.get(key, { maxBytes: 9 }), 'NotFound', 'get of a deleted object');
        const read = () => store.readInto(key, 0, new Uint8Array(4));
        await expectRejection(read, 'NotFound', 'readInto of a deleted object');
      }
      expectEqual(await t.listNames('', { store }), ['a-stays', 'dir/c-stays'], 'a listing after a delete');
    }
    await tryToListAfterDelete(t, 3);
  }),

  check('deleteMany: what does not exist counts as deleted; it is safe to repeat', async (t) => {
    await t.create('a');
    const keys = ['a', 'missing', 'missing/deeper', 'b'].map((name) => t.key(name));
    for (let round = 0; round < 3; round++) {
      const results = await t.store.deleteMany(keys);
      expectEqual(
        results,
        keys.map((key) => ({ key })),
        'results',
      );
    }
    expectEqual(await t.store.deleteMany([]), [], 'results of deleting nothing');
  }),

  check('deleteMany: one result per key in the order given, also above maxDeleteKeys', async (t) => {
    const count = Math.min(t.capabilities.maxDeleteKeys, KEYS_MAX) + 3;
    const names = Array.from({ length: count }, (_, index) => `k-${index}`);
    const existing = names.filter((_, index) => index % Math.ceil(count / 7) === 0 || index === count - 1);
    await t.createAll([...existing, 'stays']);
    const keys = t.random.shuffle(names).map((name) => t.key(name));
    const results = await t.store.deleteMany(keys);
    expectEqual(
      results.map((result) => result.key),
      keys,
      'keys of the results',
    );
    expectEqual(
      results.filter((result) => result.error),
      [],
      'results with an error',
    );
    expectEqual(await t.listNames(), ['stays'], 'what is left');
  }),

  check('deleteMany: a key given twice has two results', async (t) => {
    await t.create('a');
    const keys = [t.key('a'), t.key('b'), t.key('a')];
    expectEqual(
      await t.store.deleteMany(keys),
      keys.map((key) => ({ key })),
      'results',
    );
  }),

  check('deleteMany: it deletes exactly the keys given, never what lies below or beside them', async (t) => {
    const names = ['version_1/a', 'version_10/a', 'version_1/ab', 'version_1/b/c', 'version_2'];
    await t.createAll(names);
    const victims = ['version_1', 'version_1/b', 'version_1/a', 'version', 'version_2/a'];
    const keys = victims.map((name) => t.key(name));
    expectEqual(
      await t.store.deleteMany(keys),
      keys.map((key) => ({ key })),
      'results',
    );
    const left = ['version_1/ab', 'version_1/b/c', 'version_10/a', 'version_2'];
    expectEqual(await t.listNames(), left, 'what is left');
  }),
];
