import { CheckpointError, isCheckpointError, type ObjectStore, type Upload } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { crc32c } from '../crc32c.ts';
import { SeededRandom } from '../seeded-random.ts';
import { check } from './check.ts';
import { conformanceChecks } from './conformance-checks.ts';
import { ConformanceError } from './expect.ts';
import { type ConformanceOptions, registerConformance } from './register-conformance.ts';

const ETAG = "readInto: with the object's etag it reads, with another it is Corrupt";

/** Runs the registered tests as vitest would. Resolves to the failures by test. */
async function runRegistered(store: ObjectStore, options: ConformanceOptions) {
  const before: (() => Promise<void>)[] = [];
  const after: (() => Promise<void>)[] = [];
  const tests: [string, () => Promise<void>][] = [];
  const log: string[] = [];
  const api = {
    describe: (name: string, body: () => void) => {
      log.push(name);
      body();
    },
    test: (name: string, body: () => Promise<void>) => tests.push([name, body]),
    beforeAll: (body: () => Promise<void>) => before.push(body),
    afterAll: (body: () => Promise<void>) => after.push(body),
  };
  const remove = async () => {
    log.push('removed');
  };
  registerConformance(api, 'a store', () => ({ open: async () => store, remove }), options);
  const failures: Record<string, string> = {};
  for (const body of before) await body();
  const wanted = tests.filter(([name]) => name.startsWith('readInto: '));
  for (const [name, body] of wanted) {
    await body().catch((error: Error) => {
      failures[name] = error.message;
    });
  }
  for (const body of after) await body();
  return { failures, log, count: tests.length };
}

/** A check closes the clients it opened. Here they share the store. */
function unclosable(changes: Partial<ObjectStore>): ObjectStore {
  return Object.assign(new MemoryStore(new MemoryBucket({ crc32c })), {
    close: () => Promise.resolve(),
    ...changes,
  });
}

function withoutEtags(): ObjectStore {
  const sound = new MemoryStore(new MemoryBucket({ crc32c }));
  return Object.assign(sound, {
    readInto: (key: string, offset: number, buffer: Uint8Array) =>
      MemoryStore.prototype.readInto.call(sound, key, offset, buffer),
  });
}

test('every check is registered, and a sound store passes', async () => {
  const { failures, log, count } = await runRegistered(unclosable({}), {});
  expect(count).toBe(conformanceChecks.length);
  expect(failures).toEqual({});
  expect(log).toEqual(['a store keeps the contract of ObjectStore', 'removed']);
});

test('a failure tells the seed that replays it', async () => {
  const { failures } = await runRegistered(withoutEtags(), { seed: 77 });
  expect(Object.keys(failures)).toEqual([ETAG]);
  expect(failures[ETAG]).toMatch(/expected a rejection with Corrupt, found success \(seed 77\)$/);
});

test('a known deviation passes as long as it fails, and is an error once it is gone', async () => {
  const deviations = { [ETAG]: 'the emulator ignores conditions on reads' };
  expect((await runRegistered(withoutEtags(), { deviations })).failures).toEqual({});
  const { failures } = await runRegistered(unclosable({}), { deviations });
  expect(failures[ETAG]).toContain(
    'the deviation no longer exists; remove its entry (the emulator ignores conditions on reads)',
  );
});

test('a deviation from a check that does not exist is refused', async () => {
  await expect(runRegistered(unclosable({}), { deviations: { 'no such check': 'why' } })).rejects.toThrow(
    'no such check',
  );
});

test('a check works below its own prefix and empties it, also when it fails', async () => {
  const bucket = new MemoryBucket({ crc32c });
  const store = new MemoryStore(bucket);
  const open = async () => new MemoryStore(bucket);
  await store.create('mine', Uint8Array.of(1));
  const context = { store, open, random: new SeededRandom(1) };
  const prefixes: string[] = [];
  const failing = check('fails', async (t) => {
    prefixes.push(t.prefix);
    await t.create('a');
    await (await t.beginUpload('b')).putPart(0, Uint8Array.of(1), { crc32c: crc32c(Uint8Array.of(1)) });
    await t.open();
    throw new CheckpointError('Unavailable', 'gone');
  });
  for (let i = 0; i < 2; i++) {
    const error: unknown = await failing.run(context).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ConformanceError);
    expect(error).toMatchObject({
      message: 'a call of the check: expected success, found CheckpointError: gone',
    });
    expect(isCheckpointError((error as Error).cause, 'Unavailable')).toBe(true);
  }
  expect(new Set(prefixes).size).toBe(2);
  for (const one of conformanceChecks) await one.run(context);
  expect(bucket.keys()).toEqual(['mine']);
  expect(bucket.openUploads().map((upload) => upload.key)).toEqual([]);
});

test('a check works below a given prefix, and tells of the uploads it begins', async () => {
  const bucket = new MemoryBucket({ crc32c });
  const store = new MemoryStore(bucket);
  const keys = new Set<string>();
  const insert = bucket.insert.bind(bucket);
  bucket.insert = (key, bytes) => {
    keys.add(key);
    return insert(key, bytes);
  };
  const uploads: string[] = [];
  const context = {
    store,
    open: async () => new MemoryStore(bucket),
    random: new SeededRandom(1),
    prefix: 'certify-1/',
    onUpload: (upload: Promise<Upload>) => {
      void upload.then(({ key }) => uploads.push(key)).catch(() => undefined);
    },
  };
  for (const one of conformanceChecks) await one.run(context);
  expect(keys.size).toBeGreaterThan(100);
  expect(uploads.length).toBeGreaterThan(20);
  expect([...keys, ...uploads].filter((key) => !key.startsWith('certify-1/conformance-'))).toEqual([]);
});

test('the longest key is as long as the store says, with the prefix of its own, and not much shorter', async () => {
  const name = 'keys: segments of 255 bytes and keys of 1,024 bytes are taken';
  const check = conformanceChecks.find((one) => one.name === name);
  const lengths: number[] = [];
  const storeFor = (longest: number) => {
    const sound = new MemoryStore(new MemoryBucket({ crc32c }));
    const refuse = (key: string) => {
      if (key.length > longest) throw new CheckpointError('InvalidArgument', 'too long');
    };
    return unclosable({
      create: async (key, bytes) => {
        refuse(key);
        lengths.push(key.length);
        return sound.create(key, bytes);
      },
      head: async (key) => {
        refuse(key);
        return sound.head(key);
      },
      get: (key, options) => sound.get(key, options),
      readInto: (key, offset, buffer) => sound.readInto(key, offset, buffer),
      list: (prefix, options) => sound.list(prefix, options),
      deleteMany: (keys) => sound.deleteMany(keys),
    });
  };
  const run = (longest: number, keyBytesMax?: number) => {
    const store = storeFor(longest);
    return check?.run({ store, open: async () => store, random: new SeededRandom(1), keyBytesMax });
  };
  for (const longest of [1024, 1000, 600]) {
    await run(longest);
    expect(Math.max(...lengths.splice(0))).toBe(longest);
  }
  await expect(run(1000, 1024)).rejects.toThrow('too long');
  await expect(run(400)).rejects.toThrow('too long');
});

test('names are kept: certificates and deviations know a check by its own', async () => {
  const lines = conformanceChecks.map(({ group, name }) => `${group}\t${name}\n`);
  await expect(lines.join('')).toMatchFileSnapshot('promises.tsv');
});

test('names are unique, and groups stand together', () => {
  const names = conformanceChecks.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  const groups = conformanceChecks.map(({ group }) => group);
  const changes = groups.filter((group, index) => group !== groups[index - 1]);
  expect(changes).toEqual([...new Set(groups)]);
});

test('a check that cannot tidy up fails', async () => {
  const store = unclosable({
    deleteMany: () => Promise.reject(new CheckpointError('Denied', 'no right to delete')),
  });
  const context = { store, open: async () => store, random: new SeededRandom(1) };
  const body = check('creates', async (t) => {
    await t.create('a');
  });
  await expect(body.run(context)).rejects.toThrow('no right to delete');
  const error = new CheckpointError('Denied', 'held');
  const held = unclosable({ deleteMany: async (keys) => keys.map((key) => ({ key, error })) });
  await expect(body.run({ ...context, store: held, open: async () => held })).rejects.toThrow('held');
});
