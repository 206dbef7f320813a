/**
 * For the tests of resumed saves: a job whose processes are killed in the middle of a file, on a
 * bucket in memory.
 */

import type { CheckpointManagerOptions, ObjectStore, ProgressEvent } from '@holdfast/core';
import type { Upload } from '@holdfast/core/contract';
import { decodeRecord } from '@holdfast/core/internal/format/index';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FAULTS, type FaultPlan, FaultyStore, ManualClock, type PlannedCall } from '@holdfast/testkit';
import { expect } from 'vitest';
import { filledBytes } from '../filled-bytes.ts';
import { bytes, newBucket, open, SETTINGS } from './memory-run.ts';

export const PART = 64 * 1024;
export const CONCURRENCY = 4;
export const PART_COUNT = 20;
export const SIZE = PART_COUNT * PART - 1000;
export const NAME = 'model/large.bin';
export const VERSION = 7;
/**
 * Index of the part at which the process is killed. Parts sent before it and requests in progress
 * may exist.
 */
export const KILLED_AT = 12;

/** Prefix of the ids of this writer's uploads for this version. */
export const OWN = '7.1.1.0-';

export const source = bytesOf(1);

/** All parts differ. */
export function bytesOf(seed: number, length = SIZE): Uint8Array {
  return filledBytes(length, (at) => Math.imul(at + seed, 2654435761) >>> 24);
}

export interface Life extends Partial<CheckpointManagerOptions> {
  readonly plan?: FaultPlan | undefined;
  readonly change?: ((store: ObjectStore) => void) | undefined;
}

/** One process of the job. */
export function life(bucket: MemoryBucket, { plan, change, ...options }: Life = {}) {
  const below = new MemoryStore(bucket);
  change?.(below);
  const store = new FaultyStore(below, plan);
  const events: ProgressEvent[] = [];
  const manager = open(bucket, {
    store,
    attempt: 'job',
    clock: new ManualClock({ autoAdvance: true }),
    settings: { ...SETTINGS, concurrency: CONCURRENCY },
    ...options,
  });
  const save = (buffer: Uint8Array, version = VERSION) =>
    manager.save({ version, buffers: { [NAME]: buffer }, onProgress: (event) => events.push(event) });
  const count = (operation: PlannedCall['operation'], key = '') =>
    store.calls.filter((call) => call.operation === operation && call.key.includes(key)).length;
  return { manager, save, store, events, count };
}

export const killAtPart = (index: number): FaultPlan => {
  return ({ operation, partIndex }) =>
    operation === 'putPart' && partIndex === index ? FAULTS.stopBefore : undefined;
};

/** Kills before the part that is sent as this one in turn. Workers end parts in any order. */
export const killAtSentPart = (count: number): FaultPlan => {
  let sentCount = 0;
  return ({ operation }) => {
    if (operation !== 'putPart') return undefined;
    sentCount++;
    return sentCount === count ? FAULTS.stopBefore : undefined;
  };
};

/** A life that is killed at this part. Its clock stands still, so it runs no code afterwards. */
export async function killedLife(
  bucket: MemoryBucket,
  at = KILLED_AT,
  buffer = source,
  options: Life = {},
): Promise<void> {
  const { save, store } = life(bucket, { clock: new ManualClock(), plan: killAtPart(at), ...options });
  void save(buffer);
  await store.stopped;
}

/** A bucket with the record and the parts of a killed life. */
export async function leftBehind(options: Life = {}, bucket = newBucket()): Promise<MemoryBucket> {
  await killedLife(bucket, KILLED_AT, source, options);
  expect([bucket.openUploads().length, recordKeys(bucket).length]).toEqual([1, 1]);
  return bucket;
}

export function recordKeys(bucket: MemoryBucket): string[] {
  return bucket.keys().filter((key) => key.startsWith('uploads/'));
}

export function payloads(bucket: MemoryBucket): string[] {
  return bucket.keys().filter((key) => key.endsWith(`/${NAME}`));
}

/** The record and the parts of the upload that the killed life has left. */
export function leftUpload(bucket: MemoryBucket) {
  const [state] = bucket.openUploads();
  const [key = ''] = recordKeys(bucket);
  const record = decodeRecord('upload', bucket.find(key)?.bytes ?? bytes(0), { key });
  if (!state) throw new Error('no upload was left');
  return { state, record, recordKey: key };
}

/** Expects that the checkpoint holds these bytes. */
export async function expectSaved(bucket: MemoryBucket, expected: Uint8Array): Promise<void> {
  const reader = open(bucket);
  const to = { [NAME]: new Uint8Array(expected.length) };
  await reader.restore({ version: VERSION, to });
  expect(Buffer.compare(to[NAME] as Uint8Array, expected)).toBe(0);
  await reader.close();
}

/**
 * Expects that the file was sent from the beginning, under a key of the life that sent it, and that
 * nothing was kept.
 */
export async function expectAfresh(bucket: MemoryBucket, next: ReturnType<typeof life>, expected = source) {
  await expectSaved(bucket, expected);
  expect((await detailsOf(bucket)).key).toMatch(/^version_7\/1\.1\/0\.1-/);
  expect(next.events.filter(({ type }) => type === 'resumed')).toEqual([]);
}

export async function detailsOf(bucket: MemoryBucket) {
  const reader = open(bucket);
  const details = await (await reader.get(VERSION))?.details();
  await reader.close();
  const [file] = details?.files ?? [];
  if (!file) throw new Error('there is no such file');
  return file;
}

/** Applies `change` to each upload that the store resumes. */
export function changeUploads(change: (upload: Upload) => void): (store: ObjectStore) => void {
  return (store) => {
    const resume = store.resumeUpload.bind(store);
    store.resumeUpload = async (...args) => {
      const upload = await resume(...args);
      change(upload);
      return upload;
    };
  };
}

/**
 * Runs `act`, a step of the former life, before the first call of its successor for which `isNow`
 * is true.
 */
export function meanwhile(isNow: (call: PlannedCall) => boolean, act: () => void): FaultPlan {
  let isDone = false;
  return (call) => {
    if (!isDone && isNow(call)) {
      isDone = true;
      act();
    }
    return undefined;
  };
}
