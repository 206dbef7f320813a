import { posix } from 'node:path';
import { CheckpointError, type ListOptions, type ListPage, type ObjectInfo } from '@holdfast/core/contract';
import { crc32c } from '@holdfast/testkit';
import { type Mutant, type MutantParts, mutant } from './mutant.ts';

const MISSING = 'head, get, readInto: an object that does not exist is NotFound';
const MAX_BYTES = 'get: an object of maxBytes is read, a larger one is Corrupt';
const HEAD_CRC = 'head: where it tells a CRC32C, that is the one of all bytes';
/** Part size of the suite, if the store allows it. */
const PART_SIZE_BYTES = 64 * 1024;
const OWN_BYTES = "get: the bytes are the caller's own and are never written again";
const RANGES = 'readInto: fills the buffer from any offset, and less only where the object ends';

const readMutants: readonly Mutant[] = [
  mutant('takes a directory for an object', MISSING, ({ sound, bucket }) => ({
    head: (key, options) =>
      bucket.keys().some((other) => other.startsWith(`${key}/`))
        ? Promise.resolve({ key, sizeBytes: 0, etag: '"0"', createdAtMs: 0 })
        : sound.head(key, options),
  })),
  mutant('fails with a raw error below a file', MISSING, ({ sound, bucket }) => ({
    readInto: async (key, ...rest) => {
      if (bucket.find(posix.dirname(key)))
        throw Object.assign(new Error('not a directory'), { code: 'ENOTDIR' });
      return sound.readInto(key, ...rest);
    },
  })),
  mutant('gives an empty object where there is none', MISSING, ({ sound }) => ({
    get: (key, options) =>
      sound
        .get(key, options)
        .catch(() => ({ key, sizeBytes: 0, etag: '', createdAtMs: 0, bytes: new Uint8Array() })),
  })),
  mutant('lists other etags', 'etag and size: create, head, get and list agree, each time', ({ sound }) => ({
    list: (prefix, options) =>
      pagesWith(sound.list(prefix, options), (info) => ({ ...info, etag: info.etag.replaceAll('"', '') })),
  })),
  mutant(
    'has a new etag for each answer',
    'etag and size: create, head, get and list agree, each time',
    ({ sound, bucket }) => ({
      head: async (...args) => ({ ...(await sound.head(...args)), etag: bucket.nextEtag() }),
    }),
  ),
  mutant('tells the checksum of the last part', HEAD_CRC, ({ sound, bucket }) => ({
    head: async (key, options) => {
      const bytes = bucket.find(key)?.bytes ?? new Uint8Array();
      return {
        ...(await sound.head(key, options)),
        crc32c: crc32c(bytes.subarray(-(bytes.byteLength % PART_SIZE_BYTES))),
      };
    },
  })),
  mutant('cuts an object at maxBytes', MAX_BYTES, ({ sound }) => ({
    get: async (key, { maxBytes }) => {
      const object = await sound.get(key, { maxBytes: 2 ** 30 });
      return { ...object, bytes: object.bytes.subarray(0, maxBytes) };
    },
  })),
  mutant('refuses an object of exactly maxBytes', MAX_BYTES, ({ sound }) => ({
    get: (key, options) => sound.get(key, { ...options, maxBytes: options.maxBytes - 1 }),
  })),
  mutant('gives out its own memory', OWN_BYTES, ({ sound, bucket }) => ({
    get: async (key, options) => {
      const object = await sound.get(key, options);
      return { ...object, bytes: bucket.find(key)?.bytes ?? object.bytes };
    },
  })),
  mutant('reads into the same memory each time', OWN_BYTES, ({ sound }) => {
    const memory = new Uint8Array(2 ** 20);
    return {
      get: async (key, options) => {
        const object = await sound.get(key, options);
        memory.set(object.bytes);
        return { ...object, bytes: memory.subarray(0, object.sizeBytes) };
      },
    };
  }),
  mutant('says that it has filled the buffer', RANGES, ({ sound }) => ({
    readInto: async (key, offset, buffer, options) => {
      const count = await sound.readInto(key, offset, buffer, options);
      return count > 0 ? buffer.byteLength : 0;
    },
  })),
  mutant('refuses a range that begins at the end', RANGES, ({ sound, bucket }) => ({
    readInto: async (key, offset, ...rest) => {
      const size = bucket.find(key)?.bytes.byteLength ?? 0;
      if (offset >= size && size > 0) throw new CheckpointError('InvalidArgument', '416');
      return sound.readInto(key, offset, ...rest);
    },
  })),
  mutant('ignores the offset', RANGES, ({ sound }) => ({
    readInto: (key, _offset, buffer, options) => sound.readInto(key, 0, buffer, options),
  })),
  mutant(
    'cannot read an empty object',
    'readInto: an empty object has no bytes at any offset',
    ({ sound, bucket }) => ({
      readInto: async (key, ...rest) => {
        if (bucket.find(key)?.bytes.byteLength === 0) throw new CheckpointError('InvalidArgument', '416');
        return sound.readInto(key, ...rest);
      },
    }),
  ),
  mutant(
    'reads whole blocks past the end of the buffer',
    'readInto: memory outside the buffer is never touched, aligned or not',
    ({ sound, bucket }) => ({
      readInto: async (key, offset, buffer, options) => {
        const count = await sound.readInto(key, offset, buffer, options);
        const { bytes } = bucket.find(key) ?? { bytes: new Uint8Array() };
        const room = buffer.buffer.byteLength - buffer.byteOffset;
        const whole = Math.min(room, Math.ceil(buffer.byteLength / 512) * 512);
        new Uint8Array(buffer.buffer, buffer.byteOffset, whole).set(bytes.subarray(offset, offset + whole));
        return count;
      },
    }),
  ),
  mutant('reads through one buffer for all', 'readInto: many ranges at once fill one buffer', ({ sound }) => {
    const bounce = new Uint8Array(2 ** 21);
    return {
      readInto: async (key, offset, buffer, options) => {
        const part = bounce.subarray(0, buffer.byteLength);
        const count = await sound.readInto(key, offset, part, options);
        await Promise.resolve();
        buffer.set(part);
        return count;
      },
    };
  }),
  mutant(
    'ignores the etag',
    "readInto: with the object's etag it reads, with another it is Corrupt",
    ({ sound }) => ({
      readInto: (key, offset, buffer) => sound.readInto(key, offset, buffer),
    }),
  ),
];

async function* pagesWith(
  pages: AsyncIterable<ListPage>,
  change: (info: ObjectInfo) => ObjectInfo,
): AsyncGenerator<ListPage, void, void> {
  for await (const page of pages) yield { ...page, objects: page.objects.map(change) };
}

/**
 * A store with its own list function, which returns all matches. The result is then cut into pages.
 */
function listMutant(
  name: string,
  breaks: string,
  keysOf: (parts: MutantParts, prefix: string, startAfter: string | undefined) => string[],
): Mutant {
  return mutant(name, breaks, (parts) => ({
    list: (prefix: string, options: ListOptions = {}) =>
      pagesOf(parts, keysOf(parts, prefix, options.startAfter)),
  }));
}

async function* pagesOf(
  { sound }: MutantParts,
  keys: readonly string[],
): AsyncGenerator<ListPage, void, void> {
  const size = sound.capabilities.maxListKeys;
  for (let start = 0; start === 0 || start < keys.length; start += size) {
    const objects = await Promise.all(keys.slice(start, start + size).map((key) => sound.head(key)));
    yield { objects, storeTimeMs: Date.now() };
  }
}

function matching({ bucket }: MutantParts, prefix: string, startAfter = ''): string[] {
  const after = Buffer.from(startAfter);
  return bucket.keys().filter((key) => key.startsWith(prefix) && Buffer.compare(Buffer.from(key), after) > 0);
}

/**
 * The order of a walk through directories: names of one directory in order, then the content of
 * each.
 */
function bySegments(a: string, b: string): number {
  const [left, right] = [a.split('/'), b.split('/')];
  for (const [index, name] of left.entries()) {
    const other = right[index];
    if (other === undefined || name !== other) return other === undefined || name > other ? 1 : -1;
  }
  return -1;
}

const UTF8_ORDER = 'list: keys come in the order of their UTF-8 bytes';
const PREFIX = "list: a prefix is a text, not a directory, and 'version_1/' never matches 'version_10/'";
const START_AFTER = 'list: startAfter is exclusive and need not exist';
const PAGES = 'list: pages hold at most maxListKeys keys and together every key once';
const DIRECTORIES = 'listDirectories: what comes before the next slash, each once, whatever lies in it';
const NO_MATCH = 'list: no match is one empty page or none';

const listMutants: readonly Mutant[] = [
  listMutant('lists in the order of UTF-16', UTF8_ORDER, (...args) => matching(...args).sort()),
  listMutant('lists in no order', UTF8_ORDER, (...args) => matching(...args).reverse()),
  listMutant(
    'walks directory by directory',
    'list: directories are no borders: keys of all depths come in one order',
    (...args) => matching(...args).sort(bySegments),
  ),
  listMutant('takes a prefix for a directory', PREFIX, (parts, prefix, startAfter) =>
    matching(parts, prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`, startAfter),
  ),
  listMutant("drops a prefix's slash", PREFIX, (parts, prefix, startAfter) =>
    matching(parts, prefix.replace(/\/$/, ''), startAfter),
  ),
  mutant('shows files among directories', DIRECTORIES, ({ sound }) => ({
    listDirectories: async function* (prefix) {
      yield* sound.listDirectories(prefix);
      const keys: string[] = [];
      for await (const { objects } of sound.list(prefix)) keys.push(...objects.map(({ key }) => key));
      yield keys.map((key) => key.slice(prefix.length)).filter((name) => !name.includes('/'));
    },
  })),
  mutant(
    'shows only the first page of directories',
    DIRECTORIES,
    ({ sound }) => ({
      listDirectories: async function* (prefix) {
        for await (const names of sound.listDirectories(prefix)) {
          yield names;
          return;
        }
      },
    }),
    { capabilities: { maxListKeys: 20 } },
  ),
  mutant('cannot list nothing', NO_MATCH, (parts) => ({
    list: async function* (prefix, options = {}) {
      const keys = matching(parts, prefix, options.startAfter);
      if (keys.length === 0) throw new CheckpointError('NotFound', prefix);
      yield* pagesOf(parts, keys);
    },
  })),
  mutant('lists nothing on two pages', NO_MATCH, ({ sound }) => ({
    list: async function* (prefix, options) {
      for await (const page of sound.list(prefix, options)) {
        yield page;
        if (page.objects.length === 0) yield page;
      }
    },
  })),
  listMutant('includes startAfter', START_AFTER, (parts, prefix, startAfter = '') =>
    parts.bucket.keys().filter((key) => key.startsWith(prefix) && key >= startAfter),
  ),
  listMutant('needs startAfter to exist', START_AFTER, (parts, prefix, startAfter) => {
    const keys = matching(parts, prefix);
    return keys.slice(startAfter === undefined ? 0 : keys.indexOf(startAfter) + 1);
  }),
  mutant(
    'has pages larger than it claims',
    PAGES,
    ({ sound }) => ({ list: (...args) => sound.list(...args) }),
    { capabilities: { maxListKeys: 5 }, soundCapabilities: { maxListKeys: 6 } },
  ),
  mutant(
    'repeats the last key of a page on the next',
    PAGES,
    ({ sound }) => ({
      list: async function* (prefix, options) {
        let last: ObjectInfo[] = [];
        for await (const page of sound.list(prefix, options)) {
          yield { ...page, objects: [...last, ...page.objects.slice(last.length)] };
          last = page.objects.slice(-1);
        }
      },
    }),
    { capabilities: { maxListKeys: 5 } },
  ),
  mutant(
    'shows the first page only',
    PAGES,
    ({ sound }) => ({
      list: async function* (prefix, options) {
        for await (const page of sound.list(prefix, options)) return yield page;
      },
    }),
    { capabilities: { maxListKeys: 5 } },
  ),
  listMutant(
    'looks when it is called, not when it is read',
    'list: what was created before its first page is shown, whoever created it',
    (...args) => matching(...args),
  ),
  mutant(
    'counts its way through the pages',
    'list: while others create and delete, keys stay in order and none comes twice or is missing',
    (parts) => ({
      list: async function* (prefix, options = {}) {
        for (let seen = 0; ; ) {
          const keys = matching(parts, prefix, options.startAfter).slice(seen, seen + 7);
          const objects = await Promise.all(keys.map((key) => parts.sound.head(key)));
          yield { objects, storeTimeMs: Date.now() };
          seen += keys.length;
          if (keys.length < 7) return;
          await Promise.resolve();
        }
      },
    }),
    { capabilities: { maxListKeys: 7 } },
  ),
  mutant(
    'stays locked when a listing is left',
    'list: it can be left early and taken up again',
    ({ sound }) => {
      let isListing = false;
      return {
        list: async function* (prefix, options) {
          if (isListing) throw new CheckpointError('Unexpected', 'a listing is under way');
          isListing = true;
          for await (const page of sound.list(prefix, options)) yield page;
          isListing = false;
        },
      };
    },
  ),
];

export const readingMutants: readonly Mutant[] = [...readMutants, ...listMutants];
