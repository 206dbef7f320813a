/** Every call of the ElasticDL package that takes options, with invalid values. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MemoryStore } from '@holdfast/core/store';
import {
  bestCheckpoint,
  bucketsOf,
  CheckpointSaver,
  checkShards,
  decodeShard,
  directoryPlace,
  EarlyStopper,
  encodeShard,
  exportPlain,
  exportSafetensors,
  findVersions,
  importAll,
  importCheckpoint,
  intToId,
  latestValid,
  openCheckpointShards,
  openDirectoryShards,
  openPrefixShards,
  openShards,
  openVersion,
  parseShardFile,
  parseVersionFolder,
  prefixPlace,
  rankCheckpoints,
  repartition,
  restoreShard,
  scatterEmbeddingVector,
  scatterModel,
  shardFile,
  shardsInMemory,
  stringToId,
  versionFolder,
} from '@holdfast/elasticdl';
import { afterAll, describe, expect, test } from 'vitest';
import { bytes, newBucket, open } from '../manager/memory-run.ts';
import { expectRefused, type Odd } from './values.ts';

const NEEDED: Odd[] = [];
const OPTIONAL: Odd[] = ['undefined'];
const OBJECT: Odd[] = ['undefined', '{}'];
const FLAG: Odd[] = ['undefined', 'true'];
const CALLBACK: Odd[] = ['undefined', 'function'];
const TEXT: Odd[] = ['undefined', 'empty', 'space'];
const CHECK = { signal: OPTIONAL, numbering: OPTIONAL, onSuspicion: CALLBACK };
const READING = { ...CHECK, bufferBytes: OPTIONAL, onProgress: CALLBACK };

const directory = mkdtempSync(join(tmpdir(), 'bad-input-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

type Options = Readonly<Record<string, readonly Odd[]>>;

async function eachOption(options: Options, base: object, call: (options: never) => unknown): Promise<void> {
  for (const [option, accepted] of Object.entries(options)) {
    await expectRefused(accepted, (value) => call({ ...base, [option]: value } as never));
  }
}

const SHARD = { version: 1, infos: [], dense: new Map(), tables: new Map() };

function shards() {
  const file = Buffer.concat([...encodeShard(SHARD).chunks()]);
  return shardsInMemory({ 'variables-0-of-1.ckpt': new Uint8Array(file) });
}

const target = () => ({
  open: async () => ({ writeAt: async () => undefined, close: async () => undefined }),
  publish: async () => undefined,
  discard: async () => undefined,
});

describe('names and hashes', () => {
  test('names', async () => {
    await expectRefused(NEEDED, (value) => versionFolder(value));
    await expectRefused(OPTIONAL, (value) => versionFolder(1n, value));
    await expectRefused(['empty', 'space'], (value) => parseVersionFolder(value));
    await expectRefused(['empty', 'space'], (value) => parseShardFile(value));
    await expectRefused(['0'], (value) => shardFile(value, 1));
    await expectRefused(NEEDED, (value) => shardFile(0, value));
    await expectRefused(OPTIONAL, (value) => shardFile(0, 1, value));
  });

  test('hashes', async () => {
    const ids = new BigInt64Array(1);
    await expectRefused(['empty', 'space'], (value) => stringToId(value, 2));
    await expectRefused(NEEDED, (value) => stringToId('a', value));
    await expectRefused(NEEDED, (value) => intToId(value, 2));
    await expectRefused(NEEDED, (value) => intToId(1n, value));
    await expectRefused(NEEDED, (value) => bucketsOf(value, 2, new Uint32Array(1)));
    await expectRefused(NEEDED, (value) => bucketsOf(ids, value, new Uint32Array(1)));
    await expectRefused(NEEDED, (value) => bucketsOf(ids, 2, value));
    await expectRefused(NEEDED, (value) => scatterEmbeddingVector(value, bytes(4), 4, 2));
    await expectRefused(NEEDED, (value) => scatterEmbeddingVector(ids, value, 4, 2));
    await expectRefused(NEEDED, (value) => scatterEmbeddingVector(ids, bytes(4), value, 2));
    await expectRefused(NEEDED, (value) => scatterEmbeddingVector(ids, bytes(4), 4, value));
  });
});

describe('places and sets', () => {
  const store = () => new MemoryStore(newBucket());
  const place = () => prefixPlace(store(), '');

  test('places', async () => {
    await expectRefused([], (value) => directoryPlace(value));
    await expectRefused([], (value) => openDirectoryShards(value));
    await expectRefused(OBJECT, (value) => openDirectoryShards(directory, value));
    await expectRefused(NEEDED, (value) => prefixPlace(value, ''));
    await expectRefused(['empty', 'space'], (value) => prefixPlace(store(), value));
    await expectRefused(['empty', 'space'], (value) => openPrefixShards(store(), value));
    await expectRefused(OBJECT, (value) => openPrefixShards(store(), '', value));
    for (const call of [findVersions, openShards, latestValid] as const) {
      await expectRefused(NEEDED, (value) => call(value));
      await expectRefused(OBJECT, (value) => call(place(), value));
      await expectRefused(OPTIONAL, (signal) => call(place(), { signal }));
    }
    await eachOption({ ...CHECK, deep: FLAG, onSkipped: CALLBACK }, {}, (given) =>
      latestValid(place(), given),
    );
    await expectRefused(NEEDED, (value) => openVersion(place(), value));
    await expectRefused(NEEDED, (value) => openCheckpointShards(value));
  });

  test('a set is checked and moved', async () => {
    for (const call of [checkShards, importCheckpoint, exportSafetensors, restoreShard, scatterModel])
      await expectRefused(NEEDED, (value) => call(value, undefined as never, {} as never));
    const set = shards();
    await expectRefused(OBJECT, (value) => checkShards(set, value));
    await eachOption(CHECK, {}, (given) => checkShards(set, given));
    const restoring = { ...READING, index: ['0'] as Odd[], count: NEEDED };
    await expectRefused(NEEDED, (value) => restoreShard(set, value));
    await eachOption(restoring, { index: 0, count: 1 }, (given) => restoreShard(shards(), given));
    const scattering = { ...READING, count: NEEDED, openSink: NEEDED };
    await expectRefused(NEEDED, (value) => scatterModel(set, value));
    await eachOption(scattering, { count: 1, openSink: () => null }, (given) =>
      scatterModel(shards(), given),
    );
    const dividing = { ...READING, count: NEEDED, index: ['undefined', '0'] as Odd[], form: OPTIONAL };
    const named = { prefix: TEXT, extension: OPTIONAL };
    await expectRefused(NEEDED, (value) => repartition(value, target(), { count: 1 }));
    await expectRefused(NEEDED, (value) => repartition(set, value, { count: 1 }));
    await expectRefused(NEEDED, (value) => repartition(set, target(), value));
    await eachOption({ ...dividing, ...named }, { count: 1 }, (given) =>
      repartition(shards(), target(), given),
    );
    await expectRefused(NEEDED, (value) => exportPlain(value, target()));
    await expectRefused(NEEDED, (value) => exportPlain(set, value));
    await eachOption({ signal: OPTIONAL, ...named }, {}, (given) => exportPlain(shards(), target(), given));
  });

  test('an export', async () => {
    const path = join(directory, 'model.safetensors');
    const options = {
      ...{ ...READING, tables: OPTIONAL, rowCounts: OBJECT, rowCount: ['undefined'] as Odd[] },
      ...{ keepSlots: FLAG, replace: FLAG },
    };
    await expectRefused([], (value) => exportSafetensors(shards(), value, { replace: true }));
    await expectRefused(OBJECT, (value) => exportSafetensors(shards(), path, value));
    await eachOption(options, { replace: true }, (given) => exportSafetensors(shards(), path, given));
  });

  test('an import', async () => {
    await using manager = open(newBucket());
    const options = { ...CHECK, onProgress: CALLBACK, metadata: OBJECT };
    const { onSuspicion: _, ...ofImport } = options;
    await expectRefused(NEEDED, (value) => importCheckpoint(shards(), value));
    await expectRefused(OBJECT, (value) => importCheckpoint(shards(), manager, value));
    await eachOption({ ...ofImport, metrics: OBJECT, version: OPTIONAL }, {}, (given) =>
      importCheckpoint(shards(), manager, given),
    );
    await expectRefused(NEEDED, (value) => importAll(value, manager));
    await expectRefused(NEEDED, (value) => importAll(place(), value));
    await eachOption(ofImport, {}, (given) => importAll(place(), manager, given));
  });

  test('files in memory', async () => {
    await expectRefused(NEEDED, (value) => decodeShard(value));
    await expectRefused(NEEDED, (value) => encodeShard(value));
    await expectRefused(OPTIONAL, (value) => encodeShard(SHARD, value));
    await expectRefused(['0', '-1'], (version) => encodeShard({ ...SHARD, version }));
    await expectRefused(['{}'], (value) => shardsInMemory(value));
    await expectRefused(NEEDED, (dense) => encodeShard({ ...SHARD, dense }));
    await expectRefused(NEEDED, (tables) => encodeShard({ ...SHARD, tables }));
  });
});

describe('evaluations', () => {
  test('the best', async () => {
    await using manager = open(newBucket());
    const ranked = { metric: 'loss', mode: 'min' } as const;
    for (const call of [bestCheckpoint, rankCheckpoints] as const) {
      await expectRefused(NEEDED, (value) => call(value, ranked));
      await expectRefused(NEEDED, (value) => call(manager, value));
      await expectRefused(OBJECT, (value) => call(manager, ranked, value));
      await eachOption({ metric: ['space'], mode: NEEDED }, ranked, (given) => call(manager, given));
    }
  });

  test('when to stop', async () => {
    const rule = { metric: 'loss', mode: 'min', patience: 1 } as const;
    const options = { metric: ['space'] as Odd[], mode: NEEDED, patience: NEEDED };
    await expectRefused(['function'], (value) => new EarlyStopper(value));
    await eachOption(
      { ...options, minDelta: ['undefined', '0', '1.5', '2^53'] },
      rule,
      (given) => new EarlyStopper(given),
    );
    await expectRefused(NEEDED, (value) => EarlyStopper.fromCheckpoints(value, rule));
    await expectRefused(NEEDED, (value) => new EarlyStopper(rule).add(value));
    await expectRefused(NEEDED, (metrics) => new EarlyStopper(rule).add({ version: 1, metrics }));
    const numbers: Odd[] = ['-1', '0', '1.5', '2^53'];
    await expectRefused(numbers, (loss) => new EarlyStopper(rule).add({ version: 1, metrics: { loss } }));
  });
});

test('CheckpointSaver', async () => {
  await using manager = open(newBucket());
  const base = { index: 0, count: 1, checkpointSteps: 1 };
  const zero: Odd[] = ['undefined', '0'];
  const options = {
    ...{ index: ['0'] as Odd[], count: NEEDED, checkpointSteps: ['0'] as Odd[], keepCheckpointMax: zero },
    ...{ keepBest: ['undefined', '[]'] as Odd[], graceMs: zero, form: OPTIONAL, extension: OPTIONAL },
    ...{ evaluation: OPTIONAL },
  };
  await expectRefused(NEEDED, (value) => new CheckpointSaver(value, base));
  await expectRefused(NEEDED, (value) => new CheckpointSaver(manager, value));
  await eachOption(options, base, (given) => new CheckpointSaver(manager, given));
  const saver = new CheckpointSaver(manager, base);
  await expectRefused(NEEDED, (value) => saver.save(value, SHARD));
  await expectRefused(NEEDED, (value) => saver.save(1, value));
  await expectRefused(OBJECT, (value) => saver.save(1, SHARD, value));
  await eachOption({ isEvaluation: OPTIONAL, noWait: FLAG }, {}, (given) => saver.save(1, SHARD, given));
  expect(saver.isEnabled).toBe(true);
});
