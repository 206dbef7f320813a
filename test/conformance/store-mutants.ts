import { posix } from 'node:path';
import { CheckpointError, type CreateOptions, type ObjectInfo } from '@holdfast/core/contract';
import { crc32c } from '@holdfast/testkit';
import { later, type Mutant, type MutantParts, mutant, uploadMutant } from './mutant.ts';

/** How `create` makes an object with other bytes. */
function insert({ bucket }: MutantParts, key: string, bytes: Uint8Array): ObjectInfo {
  const info = bucket.insert(key, bytes);
  if (info === undefined) throw new CheckpointError('AlreadyExists', key);
  return info;
}

const WRONG_PARTS = 'putPart: a part beyond maxParts or larger than the part size is InvalidArgument';
const WRONG_CREATE_CRC =
  'create: a wrong CRC32C is Corrupt and has no effect; where it is not verified, it is ignored';

const capabilityMutants: readonly Mutant[] = [
  ...[
    { preferredConcurrency: 0 },
    { preferredPartConcurrency: 0 },
    { maxParts: 1.5 },
    { alignmentBytes: 3 },
    { minPartBytes: 9, maxPartBytes: 8 },
  ].map((capabilities) =>
    mutant(
      `claims ${JSON.stringify(capabilities)}`,
      'capabilities: limits are whole numbers that fit each other',
      () => ({}),
      { capabilities },
    ),
  ),
  mutant(
    'shows a password in its uri',
    'uri and capabilities are the same for every client of a store, and the uri shows no credentials',
    () => ({ uri: 'memory://user:secret@bucket' }),
  ),
  mutant(
    'has other limits for another client',
    'uri and capabilities are the same for every client of a store, and the uri shows no credentials',
    ({ sound, clientCount }) => ({
      capabilities: { ...sound.capabilities, maxDeleteKeys: 10 + clientCount },
    }),
  ),
  mutant(
    'takes more bytes than it claims',
    'create: maxCreateBytes are taken, one byte more is InvalidArgument and has no effect',
    ({ sound }) => ({ create: (...args) => sound.create(...args) }),
    { capabilities: { maxCreateBytes: 1000 }, soundCapabilities: { maxCreateBytes: 2000 } },
  ),
  mutant(
    'does not take as many bytes as it claims',
    'create: maxCreateBytes are taken, one byte more is InvalidArgument and has no effect',
    ({ sound }) => ({ create: (...args) => sound.create(...args) }),
    { capabilities: { maxCreateBytes: 1000 }, soundCapabilities: { maxCreateBytes: 999 } },
  ),
  mutant(
    'takes parts of any size',
    'beginUpload: a part size outside the limits is InvalidArgument',
    ({ sound }) => ({ beginUpload: (...args) => sound.beginUpload(...args) }),
    { capabilities: { maxPartBytes: 1000 }, soundCapabilities: { maxPartBytes: 9999 } },
  ),
  mutant(
    'takes any number of parts',
    WRONG_PARTS,
    ({ sound }) => ({ beginUpload: (...args) => sound.beginUpload(...args) }),
    {
      capabilities: { maxParts: 10 },
      soundCapabilities: { maxParts: 99 },
    },
  ),
  uploadMutant('cuts a part that is too long', WRONG_PARTS, (upload) => ({
    putPart: (index, bytes) => {
      const cut = bytes.subarray(0, upload.partSizeBytes);
      return upload.putPart(index, cut, { crc32c: crc32c(cut) });
    },
  })),
  mutant('does not compare the checksum of a create', WRONG_CREATE_CRC, ({ sound }) => ({
    create: (key, bytes) => sound.create(key, bytes),
  })),
  mutant(
    'compares checksums but says that it does not',
    WRONG_CREATE_CRC,
    ({ sound }) => ({ create: (...args) => sound.create(...args) }),
    { capabilities: { verifiesChecksums: false }, soundCapabilities: { verifiesChecksums: true } },
  ),
  uploadMutant(
    'does not compare the checksum of a part',
    'putPart: a wrong CRC32C is Corrupt and the right one is taken afterwards',
    (upload) => ({ putPart: (index, bytes) => upload.putPart(index, bytes, { crc32c: crc32c(bytes) }) }),
  ),
];

/** A store that changes each key before it uses it. */
function keyMutant(name: string, breaks: string, change: (key: string) => string): Mutant {
  return mutant(name, breaks, ({ sound }) => ({
    create: async (key, bytes, options) => ({ ...(await sound.create(change(key), bytes, options)), key }),
    head: async (key, options) => ({ ...(await sound.head(change(key), options)), key }),
    get: async (key, options) => ({ ...(await sound.get(change(key), options)), key }),
    readInto: (key, ...rest) => sound.readInto(change(key), ...rest),
    beginUpload: (key, options) => sound.beginUpload(change(key), options),
  }));
}

function decode(key: string): string {
  return key.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

const ODD_KEYS = 'keys: spaces, signs, escapes and any letter come back exactly';
const WRONG_KEYS = 'keys: a key outside the grammar is InvalidArgument and reaches nothing';

const keyMutants: readonly Mutant[] = [
  keyMutant('decodes percent signs in keys', ODD_KEYS, decode),
  mutant('lists keys as they stand in a URL', ODD_KEYS, ({ sound }) => ({
    list: async function* (prefix, options) {
      for await (const page of sound.list(prefix, options)) {
        yield { ...page, objects: page.objects.map((object) => ({ ...object, key: encodeURI(object.key) })) };
      }
    },
  })),
  mutant(
    'takes + for a space in a prefix',
    'keys: unusual keys can be prefixes and startAfter',
    ({ sound }) => ({
      list: (prefix, options) => sound.list(prefix.replaceAll('+', ' '), options),
    }),
  ),
  keyMutant('decodes percent signs in the keys of uploads', 'keys: an upload takes unusual keys too', decode),
  keyMutant('normalises Unicode', 'keys: names that look alike are different objects', (key) =>
    key.normalize('NFC'),
  ),
  keyMutant('takes + for a space', 'keys: names that look alike are different objects', (key) =>
    key.replaceAll('+', ' '),
  ),
  keyMutant('folds case', 'keys: names that differ only in case are different objects', (key) =>
    key.toLowerCase(),
  ),
  keyMutant('cuts long segments', 'keys: segments of 255 bytes and keys of 1,024 bytes are taken', (key) =>
    key
      .split('/')
      .map((segment) => segment.slice(0, 100))
      .join('/'),
  ),
  mutant(
    'refuses long keys',
    'keys: segments of 255 bytes and keys of 1,024 bytes are taken',
    ({ sound }) => ({
      create: async (key, ...rest) => {
        if (key.length > 1000) throw new CheckpointError('InvalidArgument', 'too long');
        return sound.create(key, ...rest);
      },
    }),
  ),
  keyMutant(
    'resolves dots and slashes in keys',
    WRONG_KEYS,
    (key) => posix.normalize(key).replace(/^[./]+|\/$/g, '') || 'x',
  ),
  mutant('looks for keys that cannot be', WRONG_KEYS, ({ sound }) => ({
    head: async (key, options) => {
      if (key.includes('..')) throw new CheckpointError('NotFound', key);
      return sound.head(key, options);
    },
  })),
  mutant(
    'lists its own temporary files',
    "keys: what an adapter keeps for itself ('.holdfast-') is never listed",
    (parts) => ({
      beginUpload: (key, options) => {
        insert(parts, `.holdfast-uploads-${parts.bucket.nextEtag()}`, new Uint8Array());
        return parts.sound.beginUpload(key, options);
      },
    }),
  ),
];

const SAME_BYTES = 'create: the object has the key, size and bytes that were sent';
const SECOND = 'create: a second create of the same key is AlreadyExists and changes nothing';
const SEEN = 'create: once it has resolved, every client sees the object by head, get, readInto and list';
const TIMES = "create: createdAtMs is the store's time in milliseconds, and head, get and list agree on it";

/** A store that writes other bytes than it receives. */
function createMutant(
  name: string,
  breaks: string,
  create: (
    parts: MutantParts,
    key: string,
    bytes: Uint8Array,
    options?: CreateOptions,
  ) => Promise<ObjectInfo>,
): Mutant {
  return mutant(name, breaks, (parts) => ({ create: (...args) => create(parts, ...args) }));
}

const createMutants: readonly Mutant[] = [
  createMutant('loses the last byte of a page', SAME_BYTES, async (parts, key, bytes) =>
    insert(parts, key, bytes.slice(0, bytes.byteLength - (bytes.byteLength % 4096 === 1 ? 1 : 0))),
  ),
  createMutant('answers the wrong size', SAME_BYTES, async ({ sound }, ...args) => ({
    ...(await sound.create(...args)),
    sizeBytes: args[1].byteLength + 1,
  })),
  createMutant(
    'compares checksums as signed numbers',
    'create: right checksums are taken, whatever their bits',
    async ({ sound }, key, bytes, options) => {
      if (options?.crc32c !== undefined && options.crc32c !== (crc32c(bytes) | 0))
        throw new CheckpointError('Corrupt', key);
      return sound.create(key, bytes);
    },
  ),
  createMutant(
    'writes the memory around a view',
    'create: bytes may be a view into a larger buffer',
    ({ sound }, key, bytes) =>
      sound.create(key, new Uint8Array(bytes.buffer as ArrayBuffer, 0, bytes.byteLength)),
  ),
  createMutant('replaces', SECOND, async ({ bucket, sound }, key, bytes) => {
    if (bucket.find(key) === undefined) return sound.create(key, bytes);
    bucket.damage(key, () => bytes.slice());
    return sound.head(key);
  }),
  createMutant('succeeds if the bytes are the same', SECOND, async ({ sound }, key, bytes) => {
    const found = await sound.get(key, { maxBytes: 2 ** 30 }).catch(() => undefined);
    return found && Buffer.compare(found.bytes, bytes) === 0 ? found : sound.create(key, bytes);
  }),
  createMutant('succeeds before the object is there', SEEN, async ({ sound }, key, bytes) => {
    void later().then(() => sound.create(key, bytes));
    return { key, sizeBytes: bytes.byteLength, etag: '"1"', createdAtMs: 0 };
  }),
  mutant('has a listing that lags behind', SEEN, ({ sound, bucket, clientCount }) => {
    const listed = new Set<string>();
    return {
      list: async function* (prefix, options) {
        for await (const page of sound.list(prefix, options)) {
          yield {
            ...page,
            objects: page.objects.filter((object) => clientCount === 0 || listed.has(object.key)),
          };
        }
        for (const key of bucket.keys()) listed.add(key);
      },
    };
  }),
  createMutant(
    'shows an object that grows',
    'create: no reader sees a part of an object',
    async (parts, key, bytes) => {
      const info = insert(parts, key, bytes.slice(0, bytes.byteLength >> 1));
      await later();
      parts.bucket.damage(key, () => bytes.slice());
      return { ...info, sizeBytes: bytes.byteLength };
    },
  ),
  createMutant(
    'keeps the memory of the caller',
    'create: the caller may use its buffer again once the call has ended',
    async (parts, key, bytes) => insert(parts, key, bytes),
  ),
  createMutant('tells seconds', TIMES, async ({ sound }, ...args) => {
    const info = await sound.create(...args);
    return { ...info, createdAtMs: Math.floor(info.createdAtMs / 1000) };
  }),
  mutant("tells the client's time on list pages", TIMES, ({ sound }) => ({
    list: async function* (prefix, options) {
      for await (const page of sound.list(prefix, options))
        yield { ...page, storeTimeMs: page.storeTimeMs - 3_600_000 };
    },
  })),
];

const DELETE_ORDER = 'deleteMany: one result per key in the order given, also above maxDeleteKeys';

const deleteMutants: readonly Mutant[] = [
  mutant(
    'only hides what is deleted',
    'deleteMany: deleted objects are gone for every client',
    ({ sound }) => {
      const hidden = new Set<string>();
      return {
        deleteMany: async (keys) => {
          for (const key of keys) hidden.add(key);
          return keys.map((key) => ({ key }));
        },
        list: async function* (prefix, options) {
          for await (const page of sound.list(prefix, options)) {
            yield { ...page, objects: page.objects.filter((object) => !hidden.has(object.key)) };
          }
        },
      };
    },
  ),
  mutant(
    'reports what does not exist',
    'deleteMany: what does not exist counts as deleted; it is safe to repeat',
    ({ sound, bucket }) => ({
      deleteMany: async (keys) => {
        const missing = keys.filter((key) => bucket.find(key) === undefined);
        const results = await sound.deleteMany(keys);
        const error = new CheckpointError('NotFound', 'missing');
        return results.map((result) => (missing.includes(result.key) ? { ...result, error } : result));
      },
    }),
  ),
  mutant('sorts its results', DELETE_ORDER, ({ sound }) => ({
    deleteMany: (keys) => sound.deleteMany([...keys].sort()),
  })),
  mutant(
    'deletes only as many as one request takes',
    DELETE_ORDER,
    ({ sound, bucket }) => ({
      deleteMany: async (keys) => {
        for (const key of keys.slice(0, sound.capabilities.maxDeleteKeys)) bucket.remove(key);
        return keys.map((key) => ({ key }));
      },
    }),
    { capabilities: { maxDeleteKeys: 10 } },
  ),
  mutant('merges results', 'deleteMany: a key given twice has two results', ({ sound }) => ({
    deleteMany: (keys) => sound.deleteMany([...new Set(keys)]),
  })),
  mutant(
    'deletes what lies below',
    'deleteMany: it deletes exactly the keys given, never what lies below or beside them',
    ({ bucket }) => ({
      deleteMany: async (keys) => {
        for (const key of bucket.keys())
          if (keys.some((root) => key === root || key.startsWith(`${root}/`))) bucket.remove(key);
        return keys.map((key) => ({ key }));
      },
    }),
  ),
];

const ONE_WINNER =
  'create: of 32 concurrent creates of one key exactly one succeeds, and the others are AlreadyExists';

const raceMutants: readonly Mutant[] = [
  createMutant('looks first and writes then', ONE_WINNER, async ({ bucket, sound }, key, bytes) => {
    const isThere = bucket.find(key) !== undefined;
    await Promise.resolve();
    if (isThere) throw new CheckpointError('AlreadyExists', key);
    if (bucket.find(key) === undefined) return sound.create(key, bytes);
    bucket.damage(key, () => bytes.slice());
    return sound.head(key);
  }),
  createMutant('lets everybody lose', ONE_WINNER, async ({ sound }, key, bytes) => {
    await sound.create(key, bytes);
    throw new CheckpointError('AlreadyExists', key);
  }),
  createMutant('answers a loser with another error', ONE_WINNER, async ({ sound }, ...args) =>
    sound.create(...args).catch(() => {
      throw new CheckpointError('Conflict', 'lost');
    }),
  ),
  mutant(
    'cannot make a directory twice at a time',
    'create: concurrent creates of different keys all succeed',
    ({ sound }) => {
      const making = new Set<string>();
      return {
        create: async (key, ...rest) => {
          const directory = posix.dirname(key);
          if (making.has(directory)) throw new CheckpointError('Unexpected', `EEXIST: ${directory}`);
          making.add(directory);
          await Promise.resolve();
          making.delete(directory);
          return sound.create(key, ...rest);
        },
      };
    },
  ),
];

export const storeMutants: readonly Mutant[] = [
  ...capabilityMutants,
  ...keyMutants,
  ...createMutants,
  ...deleteMutants,
  ...raceMutants,
];
