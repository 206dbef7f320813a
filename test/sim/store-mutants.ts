/**
 * Stores that break the contract in ways that real ones do. The simulation has to find the
 * consequences.
 */

import type { ListPage, ObjectStore } from '@holdfast/core/contract';
import { isCheckpointError } from '@holdfast/core/contract';
import type { Sabotage } from './simulation.ts';

export const STORE_MUTANTS: Readonly<Record<string, Sabotage>> = {
  'a create that lost the race is told that it won': ({ sound }) => ({
    create: async (key, bytes, options) => {
      try {
        return await sound.create(key, bytes, options);
      } catch (error) {
        if (!isCatalog(key) || !isCheckpointError(error, 'AlreadyExists')) throw error;
        // The checksum of the other bytes would give it away.
        return { ...(await sound.head(key)), crc32c: undefined };
      }
    },
  }),
  'a create of a catalog entry overwrites': ({ sound, bucket }) => ({
    create: async (key, bytes, options) => {
      if (!isCatalog(key) || !bucket.find(key)) return sound.create(key, bytes, options);
      const copy = bytes.slice();
      bucket.damage(key, () => copy);
      return sound.head(key);
    },
  }),
  'the newest catalog entry is sometimes hidden from listings': ({ sound, random }) => ({
    list: (prefix, options) =>
      changedPages(sound.list(prefix, options), (page) =>
        isCatalog(prefix) && random.fraction() < 0.2 ? { ...page, objects: page.objects.slice(0, -1) } : page,
      ),
  }),
  'some receipts are never listed': ({ sound }) => ({
    list: (prefix, options) =>
      changedPages(sound.list(prefix, options), (page) => ({
        ...page,
        objects: page.objects.filter(({ key }) => !/receipts\/[12]\.\d+\.json$/.test(key)),
      })),
  }),
  'a payload is acknowledged and lost': ({ sound, random }) => ({
    create: async (key, bytes, options) => {
      if (!isPayload(key) || random.fraction() > 0.03) return sound.create(key, bytes, options);
      return { key, sizeBytes: bytes.byteLength, etag: '"lost"', createdAtMs: 0 };
    },
  }),
  'a payload is written in part': ({ sound, random }) => ({
    create: async (key, bytes, options) => {
      if (!isPayload(key) || random.fraction() > 0.03) return sound.create(key, bytes, options);
      const info = await sound.create(key, bytes.subarray(0, bytes.byteLength - 1));
      return { ...info, sizeBytes: bytes.byteLength };
    },
  }),
  'a payload is written with a wrong bit': ({ sound, random }) => ({
    create: async (key, bytes, options) => {
      if (!isPayload(key) || random.fraction() > 0.03) return sound.create(key, bytes, options);
      return sound.create(key, flipped(bytes));
    },
  }),
  'a read sometimes returns a wrong bit': ({ sound, random }) => ({
    readInto: async (key, offsetBytes, buffer, options) => {
      const count = await sound.readInto(key, offsetBytes, buffer, options);
      if (random.fraction() < 0.5) buffer.set(flipped(buffer));
      return count;
    },
  }),
  'a catalog entry is acknowledged and lost': ({ sound, random }) => ({
    create: async (key, bytes, options) => {
      if (!isCatalog(key) || random.fraction() > 0.1) return sound.create(key, bytes, options);
      return { key, sizeBytes: bytes.byteLength, etag: '"lost"', createdAtMs: 0 };
    },
  }),
  'deleting a lease takes a payload along': ({ sound, bucket }) => ({
    deleteMany: (keys, options) => {
      const payload = bucket.keys().findLast(isPayload);
      return sound.deleteMany(payload ? [...keys, payload] : keys, options);
    },
  }),
  'a get sometimes returns the catalog entry before': ({ sound, random }) => ({
    get: async (key, options) => {
      const seq = Number(key.slice(8, 28));
      if (!isCatalog(key) || seq < 2 || random.fraction() > 0.1) return sound.get(key, options);
      return { ...(await sound.get(`catalog/${String(seq - 1).padStart(20, '0')}.json`, options)), key };
    },
  }),
};

function isCatalog(key: string): boolean {
  return key.startsWith('catalog/');
}

function isPayload(key: string): boolean {
  return /^version_\d+\/[\d.]+\/[\d.]+-/.test(key);
}

function flipped(bytes: Uint8Array): Uint8Array {
  const copy = bytes.slice();
  if (copy[0] !== undefined) copy[0] ^= 1;
  return copy;
}

async function* changedPages(
  pages: ReturnType<ObjectStore['list']>,
  change: (page: ListPage) => ListPage,
): AsyncGenerator<ListPage, void, void> {
  for await (const page of pages) yield change(page);
}
