import { setImmediate } from 'node:timers/promises';
import { crc32c } from '@holdfast/core';
import {
  CheckpointError,
  type ObjectInfo,
  type ObjectStore,
  systemClock,
  systemRandom,
  type Upload,
} from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { describe, expect, it } from 'vitest';
import { CHECKS } from './checks.ts';
import { examine } from './examine.ts';
import type { Finding } from './finding.ts';
import { errorOf, verdictOf } from './verdict.ts';

type Changes = { -readonly [name in keyof ObjectStore]?: ObjectStore[name] };
interface Parts {
  readonly bucket: MemoryBucket;
  /** A correct client of the bucket. */
  readonly sound: MemoryStore;
  /** Number of clients opened before this one. */
  readonly clientCount: number;
}

/** Examines a memory store with some of its members replaced. */
async function examineStore(change: (parts: Parts) => Changes, bucket = new MemoryBucket({ crc32c })) {
  let clientCount = 0;
  const { findings } = await examine({
    checks: CHECKS.filter(({ isLong }) => !isLong),
    open: async () => {
      const sound = new MemoryStore(bucket);
      return Object.assign(new MemoryStore(bucket), change({ bucket, sound, clientCount: clientCount++ }));
    },
    clock: systemClock,
    random: systemRandom,
    prefix: 'doctor-0123456789abcdef/',
    timeoutMs: 30_000,
    signal: new AbortController().signal,
  });
  const of = (id: string) => findings.find((finding) => finding.id === id) as Finding;
  return { findings, of, verdict: verdictOf(findings), error: errorOf(findings, 's3://b') };
}

const failing = (findings: readonly Finding[]) =>
  findings.filter(({ status }) => status === 'failed' || status === 'degraded').map(({ id }) => id);

const TWO_COMMIT = /two writers could both commit/;

const byKey = (a: ObjectInfo, b: ObjectInfo) => Buffer.compare(Buffer.from(a.key), Buffer.from(b.key));

/** Stores that each break one requirement, and the check that must find it. */
const BROKEN: readonly [name: string, finder: string, change: (parts: Parts) => Changes][] = [
  [
    'ignores the precondition and replaces',
    'create-if-absent',
    ({ bucket, sound }) => ({
      create: async (key, bytes) => {
        if (bucket.find(key) === undefined) return sound.create(key, bytes);
        bucket.damage(key, () => bytes.slice());
        return sound.head(key);
      },
    }),
  ],
  [
    'says yes to a second create',
    'create-if-absent',
    ({ sound }) => ({ create: (key, bytes) => sound.create(key, bytes).catch(() => sound.head(key)) }),
  ],
  [
    'says yes to a second create of the same bytes',
    'create-if-absent',
    ({ bucket, sound }) => ({
      create: async (key, bytes) => {
        const found = bucket.find(key);
        const isSame = found !== undefined && Buffer.compare(found.bytes, bytes) === 0;
        return isSame ? sound.head(key) : sound.create(key, bytes);
      },
    }),
  ],
  [
    'refuses a second create and replaces nevertheless',
    'create-if-absent',
    ({ bucket, sound }) => ({
      create: async (key, bytes) => {
        if (bucket.find(key) !== undefined) bucket.damage(key, () => bytes.slice());
        return sound.create(key, bytes);
      },
    }),
  ],
  [
    'refuses an object of no bytes',
    'empty-object',
    ({ sound }) => ({
      create: (key, bytes) =>
        bytes.byteLength === 0
          ? Promise.reject(new CheckpointError('InvalidArgument', key))
          : sound.create(key, bytes),
    }),
  ],
  [
    'tells no size of an object of no bytes',
    'empty-object',
    ({ sound }) => ({
      head: async (key) => {
        const info = await sound.head(key);
        return { ...info, sizeBytes: info.sizeBytes || Number.NaN };
      },
    }),
  ],
  [
    'looks first and writes then',
    'race',
    ({ bucket, sound }) => ({
      create: async (key, bytes) => {
        const isThere = bucket.find(key) !== undefined;
        await setImmediate();
        if (isThere) throw new CheckpointError('AlreadyExists', key);
        if (bucket.find(key) === undefined) return sound.create(key, bytes);
        bucket.damage(key, () => bytes.slice());
        return sound.head(key);
      },
    }),
  ],
  [
    'lets a second one in now and then',
    'race',
    ({ bucket, sound }) => ({
      create: async (key, bytes) => {
        if (!/few-1[0-9]$/.test(key) || bucket.find(key) === undefined) return sound.create(key, bytes);
        bucket.damage(key, () => bytes.slice());
        return sound.head(key);
      },
    }),
  ],
  [
    'succeeds before the object is there',
    'may-read',
    ({ sound }) => ({
      create: async (key, bytes, options) => {
        const late = setImmediate().then(() => sound.create(key, bytes, options));
        late.catch(() => undefined); // The test does not wait for it.
        return { key, sizeBytes: bytes.byteLength, etag: '"1"', createdAtMs: 0 };
      },
    }),
  ],
  [
    'lets everybody lose a race',
    'race',
    ({ sound }) => {
      const senders = new Map<string, number>();
      return {
        create: async (key, bytes, options) => {
          senders.set(key, (senders.get(key) ?? 0) + 1);
          await setImmediate();
          const info = await sound.create(key, bytes, options);
          if (senders.get(key) !== 1) throw new CheckpointError('AlreadyExists', key);
          return info;
        },
      };
    },
  ],
  [
    'remembers that an object was missing',
    'read-after-write',
    ({ sound }) => {
      const missing = new Set<string>();
      return {
        get: async (key, options) => {
          if (missing.has(key)) throw new CheckpointError('NotFound', key);
          return sound.get(key, options).catch((error) => {
            missing.add(key);
            throw error;
          });
        },
      };
    },
  ],
  [
    'lists late',
    'listing',
    ({ sound, bucket, clientCount }) => {
      const listed = new Set<string>();
      return {
        list: async function* (prefix, options) {
          for await (const page of sound.list(prefix, options)) {
            const objects = page.objects.filter(({ key }) => clientCount === 0 || listed.has(key));
            yield { ...page, objects };
          }
          for (const key of bucket.keys()) listed.add(key);
        },
      };
    },
  ],
  [
    'lists in the order of UTF-16',
    'listing',
    ({ sound }) => ({
      list: async function* (prefix, options) {
        for await (const page of sound.list(prefix, options))
          yield { ...page, objects: page.objects.toSorted((a, b) => (a.key < b.key ? -1 : 1)) };
      },
    }),
  ],
  [
    'takes a prefix for the beginning of a directory name',
    'listing',
    ({ sound }) => ({ list: (prefix, options) => sound.list(prefix.replace(/\/$/, ''), options) }),
  ],
  [
    'lists from startAfter on',
    'listing',
    ({ sound }) => ({
      list: async function* (prefix, { startAfter, ...options } = {}) {
        for await (const page of sound.list(prefix, options))
          yield { ...page, objects: page.objects.filter(({ key }) => key >= (startAfter ?? '')) };
      },
    }),
  ],
  [
    'ignores the offset',
    'ranges',
    ({ sound }) => ({ readInto: (key, _, buffer) => sound.readInto(key, 0, buffer) }),
  ],
  [
    'claims to have filled the buffer',
    'ranges',
    ({ sound }) => ({
      readInto: async (...args) => ((await sound.readInto(...args)) > 0 ? args[2].byteLength : 0),
    }),
  ],
  ['deletes later', 'delete', () => ({ deleteMany: async (keys) => keys.map((key) => ({ key })) })],
  [
    'deletes what begins with the key too',
    'delete',
    ({ bucket }) => ({
      deleteMany: async (keys) => {
        for (const key of bucket.keys()) if (keys.some((start) => key.startsWith(start))) bucket.remove(key);
        return keys.map((key) => ({ key }));
      },
    }),
  ],
  [
    'lists what was deleted',
    'list-after-delete',
    ({ sound, clientCount }) => {
      const shown = new Map<string, ObjectInfo>();
      return {
        list: async function* (prefix, options) {
          for await (const page of sound.list(prefix, options)) {
            for (const info of page.objects) shown.set(info.key, info);
            const objects = [...shown.values()].filter(({ key }) => key.startsWith(prefix)).toSorted(byKey);
            const isPlain = clientCount === 0 || options?.startAfter !== undefined;
            yield { ...page, objects: isPlain ? page.objects : objects };
          }
        },
      };
    },
  ],
  ['has no empty prefixes', 'may-list', ({ sound }) => ({ list: () => sound.list('') })],
];

/** The same for uploads. */
const BROKEN_UPLOADS: readonly [
  name: string,
  finder: string,
  change: (upload: Upload, parts: Parts) => Partial<Upload>,
][] = [
  [
    'joins parts in the order in which they came',
    'multipart',
    (upload, { bucket, sound }) => ({
      complete: async () => {
        const sent = [...(bucket.findUpload(upload.token)?.parts.values() ?? [])];
        bucket.insert(upload.key, Buffer.concat(sent.map(({ bytes }) => bytes)));
        return sound.head(upload.key);
      },
    }),
  ],
  [
    'shows an object before it is complete',
    'multipart',
    (upload, { bucket }) => ({
      putPart: async (index, bytes, options) => {
        bucket.insert(upload.key, bytes.slice());
        return upload.putPart(index, bytes, options);
      },
    }),
  ],
  [
    'does not compare the checksum of a part',
    'checksums',
    (upload) => ({ putPart: (index, bytes) => upload.putPart(index, bytes, { crc32c: crc32c(bytes) }) }),
  ],
  ['does not abort', 'abort', () => ({ abort: async () => undefined })],
];

describe('a broken store', () => {
  it.each(BROKEN)('that %s is found by %s', async (_, finder, change) => {
    const bucket = new MemoryBucket({ crc32c });
    if (finder === 'may-list') await new MemoryStore(bucket).create('other', new Uint8Array(1));
    const { of, findings, verdict, error } = await examineStore(change, bucket);
    expect(of(finder), JSON.stringify(findings, null, 1)).toMatchObject({
      status: 'failed',
      code: 'Unsupported',
    });
    expect(findings.find(({ status }) => status === 'failed')?.id).toBe(finder);
    expect(of(finder).meaning).not.toBe('');
    expect(of(finder).advice).not.toBe('');
    expect(verdict).toBe('unsafe');
    expect(error).toMatchObject({ code: 'Unsupported', exitCode: 2 });
    if (finder === 'create-if-absent' || finder === 'race') expect(error?.message).toMatch(TWO_COMMIT);
  });

  it.each(BROKEN_UPLOADS)('whose upload %s is found by %s', async (_, finder, change) => {
    const { of, findings } = await examineStore((parts) => ({
      beginUpload: async (...args) => {
        const upload = await parts.sound.beginUpload(...args);
        const whole: Upload = {
          key: upload.key,
          token: upload.token,
          partSizeBytes: upload.partSizeBytes,
          putPart: (...rest) => upload.putPart(...rest),
          listParts: (...rest) => upload.listParts(...rest),
          complete: (...rest) => upload.complete(...rest),
          abort: (...rest) => upload.abort(...rest),
        };
        return { ...whole, ...change(whole, parts) };
      },
    }));
    expect(failing(findings)).toEqual([finder]);
    expect(of(finder).code).toBe('Unsupported');
  });

  it.each<[string, (upload: Upload) => Partial<Upload>]>([
    ['loses', () => ({ listParts: async () => [] })],
    ['forgets', () => ({ putPart: () => Promise.reject(new CheckpointError('NotFound', 'no such upload')) })],
  ])('an upload that another client takes up and the store %s is found by resume', async (_, change) => {
    const { of, findings, verdict } = await examineStore(({ sound }) => ({
      resumeUpload: async (...args) => {
        const upload = await sound.resumeUpload(...args);
        return Object.assign(Object.create(upload), change(upload));
      },
    }));
    expect(failing(findings)).toEqual(['resume']);
    expect(of('resume').status).toBe('degraded');
    expect(verdict).toBe('safe');
  });

  it('a store that takes wrong checksums, or cannot abort, is degraded and safe', async () => {
    const { of, verdict, error } = await examineStore(({ sound }) => ({
      create: (key, bytes) => sound.create(key, bytes),
    }));
    expect(of('checksums')).toMatchObject({
      status: 'degraded',
      seen: 'an object with a wrong CRC32C is accepted',
    });
    expect({ verdict, error }).toEqual({ verdict: 'safe', error: null });
  });

  it.each([1, 2, 3, 4, 5, 40])(
    'reading %i of one that differs is of bytes changed on the way: the store is not blamed for it',
    async (differing) => {
      let readings = 0;
      const flipped = (bytes: Uint8Array) => {
        readings += 1;
        return readings === differing ? bytes.map((byte, at) => (at === 7 ? byte ^ 1 : byte)) : bytes;
      };
      const { findings, verdict, error } = await examineStore(({ sound }) => ({
        get: async (key, options) => {
          const found = await sound.get(key, options);
          return { ...found, bytes: flipped(found.bytes) };
        },
      }));
      const failed = findings.filter(({ status }) => status === 'failed');
      expect(failed).toMatchObject([
        {
          code: 'Corrupt',
          seen: expect.stringContaining('was read twice, with different bytes'),
          meaning: expect.stringContaining('bytes are changed in transit'),
        },
      ]);
      expect([verdict, error?.code]).toEqual(['unknown', 'Corrupt']);
      expect(error?.message).not.toMatch(TWO_COMMIT);
    },
  );

  it('the bytes of a refused create, read once only, are the fault of the store', async () => {
    const refused = new Map<string, Uint8Array>();
    const { of, verdict } = await examineStore(({ sound }) => ({
      create: (key, bytes, options) =>
        sound.create(key, bytes, options).catch((error) => {
          if (key.includes('few-')) refused.set(key, bytes.slice());
          throw error;
        }),
      get: async (key, options) => {
        const found = await sound.get(key, options);
        const bytes = refused.get(key);
        refused.delete(key);
        return bytes === undefined ? found : { ...found, bytes };
      },
    }));
    expect(of('race')).toMatchObject({
      status: 'failed',
      code: 'Unsupported',
      seen: expect.stringContaining('the object holds the bytes of a create that was refused'),
    });
    expect(verdict).toBe('unsafe');
  });

  it('a loser that is told something else is no loser: its error is told', async () => {
    const { of } = await examineStore(({ sound }) => ({
      create: (...args) =>
        sound.create(...args).catch(() => {
          throw new CheckpointError('Conflict', 'lost');
        }),
    }));
    expect(of('create-if-absent')).toMatchObject({ status: 'failed', code: 'Conflict', seen: 'lost' });
  });

  it('what needs a failed check is not run and says which one that is, the first of a chain', async () => {
    const { of, findings } = await examineStore(({ sound }) => ({
      create: (key, bytes) => sound.create(key, bytes).catch(() => sound.head(key)),
    }));
    expect(of('race')).toMatchObject({
      status: 'not-run',
      because: 'create-if-absent',
      seen: '"create-if-absent" failed',
    });
    expect(findings.filter(({ status }) => status === 'not-run')).toHaveLength(1);
  });
});
