/**
 * One checkpoint of many files: the requests of its commit, of a first read, and of a restore of
 * one file. Measured in memory and in real stores.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { crc32c, createCheckpointManager, type ObjectStore } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { type Counted, Counter } from './counter.ts';
import { type ScaleStoreName, startScaleStore } from './scale-stores.ts';

const MIB = 1024 * 1024;
const SETTINGS = { bufferBytes: 16 * MIB, partSizeBytesMin: 64 * 1024, deletesPerSecondMax: 1_000_000 };
const FILES_PER_WRITER = 1000;
const JOB = 'job';

export interface FilesPlan {
  readonly count: number;
  readonly writers: number;
  /** Precedes the names of the counted calls. */
  readonly label: string;
  readonly open: () => Promise<ObjectStore>;
}

/** In memory, with a thousand files for each writer. */
export function ofFiles(count: number): Promise<Counted[]> {
  const bucket = new MemoryBucket({ crc32c });
  const open = async () => new MemoryStore(bucket);
  const writers = Math.max(1, Math.ceil(count / FILES_PER_WRITER));
  return countFiles({ count, writers, label: 'files', open });
}

/** In memory, with all files in one writer. */
export function ofLoneWriter(count: number): Promise<Counted[]> {
  const bucket = new MemoryBucket({ crc32c });
  return countFiles({ count, writers: 1, label: 'lone writer', open: async () => new MemoryStore(bucket) });
}

/** In memory, with one file for each writer. */
export function ofWriters(writers: number): Promise<Counted[]> {
  const bucket = new MemoryBucket({ crc32c });
  const open = async () => new MemoryStore(bucket);
  return countFiles({ count: writers, writers, label: 'writers', open });
}

/** `directory` holds the local store and the data of the server. */
export async function ofStored(name: ScaleStoreName, count: number, directory: string): Promise<Counted[]> {
  const below = mkdtempSync(join(directory, 'holdfast-scale-'));
  const writers = Math.max(1, Math.ceil(count / FILES_PER_WRITER));
  try {
    const store = await startScaleStore(name, below);
    try {
      return await countFiles({ count, writers, label: name, open: store.open });
    } finally {
      await store.stop();
    }
  } finally {
    rmSync(below, { recursive: true, force: true });
  }
}

async function countFiles({ count, writers, label, open }: FilesPlan): Promise<Counted[]> {
  const counter = new Counter();
  const manager = async (index: number) =>
    createCheckpointManager({
      store: counter.connect(await open()),
      settings: SETTINGS,
      attempt: JOB,
      writer: { index, count: writers },
    });
  const ofEach = Math.ceil(count / writers);
  const namesOf = (index: number) =>
    Array.from({ length: ofEach }, (_, at) => `rank-${index}/part-${at}.bin`);
  const save = async (index: number) => {
    const writer = await manager(index);
    if (index === 1) counted.push(await counter.count(`${label}: join`, count, () => writer.join()));
    const pairs = namesOf(index).map((name, at) => [name, Uint8Array.of(index, at)] as const);
    const isLast = index === writers - 1;
    const buffers = Object.fromEntries(pairs);
    await writer.save({ version: 1, buffers, noWait: !isLast, dedupe: 'off' });
    await writer.close();
  };
  const counted: Counted[] = [];
  for (let index = 0; index < writers - 2; index++) await save(index);
  if (writers > 1) counted.push(await counter.count(`${label}: save`, count, () => save(writers - 2)));
  counted.push(await counter.count(`${label}: last save and commit`, count, () => save(writers - 1)));
  const reader = await manager(0);
  const [name = ''] = namesOf(writers >> 1);
  const to = { [name]: new Uint8Array(2) };
  const ask = async (what: string, call: () => Promise<unknown>) =>
    counted.push(await counter.count(`${label}: ${what}`, count, call));
  await ask('list', () => reader.list({ limit: 20 }));
  await ask('restore one', () => reader.restore({ version: 1, to }));
  await ask('fsck', () => reader.admin.fsck());
  await ask('verify, level 0', () => reader.admin.verify({ version: 1, level: 0 }));
  await reader.close();
  return counted;
}
