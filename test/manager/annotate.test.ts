/** Metrics and metadata that are added after the commit. */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { crc32c, isCheckpointError } from '@holdfast/core';
import { decodeRecord } from '@holdfast/core/internal/format/index';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FaultyStore } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open, SETTINGS } from './memory-run.ts';
import { entryCount, runOf, saveVersions, timedRun } from './retention-run.ts';

const PAGED = { ...SETTINGS, entryCheckpointsMax: 2 };

const metricsOf = async (manager: ReturnType<typeof open>) =>
  Object.fromEntries((await manager.list()).map(({ version, metrics }) => [String(version), { ...metrics }]));

describe('annotate', () => {
  test('list, get and details have it, and the log says it; the last value of each name stands', async () => {
    const run = await runOf([1, 2]);
    await using manager = run.open();
    const id = await manager.admin.annotate(1, {
      metrics: { auc: 0.9 },
      metadata: { by: 'eval-3', note: 'a' },
    });
    expect(id).toEqual({ lineage: 1, epoch: 1, version: 1n });
    await manager.admin.annotate(1n, { metrics: { auc: 0.91, loss: 7 }, metadata: { note: 'b' } });
    expect(await metricsOf(manager)).toEqual({ 1: { loss: 7, auc: 0.91 }, 2: { loss: 0.2 } });
    await using checkpoint = await manager.get(1);
    const details = await checkpoint?.details();
    expect({ ...details?.metrics }).toEqual({ loss: 7, auc: 0.91 });
    expect({ ...details?.metadata }).toEqual({ by: 'eval-3', note: 'b' });
    const [entry] = await manager.admin.log({ limit: 1 });
    expect(entry).toMatchObject({
      kind: 'annotate',
      checkpoints: [id],
      reason: 'auc=0.91, loss=7, note="b"',
    });
  });

  test('what the checkpoint says already is no decision', async () => {
    const run = await runOf([1]);
    await using manager = run.open();
    await manager.admin.annotate(1, { metrics: { auc: 0.9 } });
    const before = entryCount(run);
    await manager.admin.annotate(1, { metrics: { auc: 0.9, loss: 0.1 } });
    expect(entryCount(run)).toBe(before);
  });

  test('the files, the manifest and the metadata of the commit stay as they are', async () => {
    const bucket = newBucket();
    await using manager = open(bucket);
    await manager.save({ version: 1, buffers: { a: bytes(10) }, metadata: { host: 'n1', note: 'saved' } });
    const before = bucket.keys().filter((key) => !key.startsWith('catalog/'));
    await manager.admin.annotate(1, { metadata: { note: 'annotated' } });
    expect(bucket.keys().filter((key) => !key.startsWith('catalog/'))).toEqual(before);
    await using checkpoint = await manager.get(1);
    expect({ ...(await checkpoint?.details())?.metadata }).toEqual({ host: 'n1', note: 'annotated' });
    expect((await manager.admin.verify({ version: 1 })).problems).toEqual([]);
  });

  test('rules by metrics go by it', async () => {
    const run = await runOf([1, 2, 3]);
    await using manager = run.open();
    const policy = { keepBest: [{ metric: 'auc', mode: 'max', count: 1 }] } as const;
    expect(await failure(manager.admin.planRetention({ policy }))).toContain(
      'no checkpoint has the metric "auc"',
    );
    await manager.admin.annotate(1, { metrics: { auc: 0.9 } });
    await manager.admin.annotate(2, { metrics: { auc: 0.8 } });
    const { verdicts } = await manager.admin.planRetention({ policy });
    expect(verdicts.map(({ version, verdict }) => `${version} ${verdict}`)).toEqual([
      '3 keep',
      '2 retire',
      '1 keep',
    ]);
  });

  test('one that a rollback left behind is told from the new one by its lineage', async () => {
    const run = await runOf([1, 2]);
    await using manager = run.open();
    await manager.admin.rollback({ to: 1, reason: 'loss' });
    await using again = run.open();
    await again.save({ version: 2, buffers: { a: bytes(10, 5) } });
    await again.admin.annotate(2, { metrics: { auc: 0.5 } });
    await again.admin.annotate({ version: 2, lineage: 1 }, { metrics: { auc: 0.1 } });
    const seen = (await again.list()).map(({ id, metrics }) => [id.lineage, id.version, metrics['auc']]);
    expect(seen).toEqual([
      [2, 2n, 0.5],
      [1, 2n, 0.1],
      [1, 1n, undefined],
    ]);
    expect(await failure(again.admin.annotate({ version: 2, lineage: 3 }, { metrics: { auc: 1 } }))).toBe(
      'NotFound: version 2@3 is not in the catalog',
    );
  });
});

describe('annotate, of a run with pages', () => {
  test('an old version in a page takes it, and keeps it while the run goes on', async () => {
    const run = timedRun();
    await using manager = run.open({ settings: PAGED, attempt: 'job' });
    await saveVersions(manager, [1, 2, 3, 4, 5], run.clock);
    await manager.admin.annotate(1, { metrics: { auc: 0.9 }, metadata: { note: 'old' } });
    await manager.admin.annotate(5, { metrics: { auc: 0.5 }, metadata: { note: 'new' } });
    await saveVersions(manager, [6, 7, 8], run.clock);
    await using other = run.open({ settings: PAGED });
    const annotated = (await other.list()).flatMap(({ version, metrics }) =>
      metrics['auc'] === undefined ? [] : [[version, metrics['auc']]],
    );
    expect(annotated).toEqual([
      [5n, 0.5],
      [1n, 0.9],
    ]);
    for (const [version, note] of [
      [1, 'old'],
      [5, 'new'],
    ] as const) {
      await using checkpoint = await other.get(version);
      expect((await checkpoint?.details())?.metadata['note']).toBe(note);
    }
  });
});

describe('at the same time', () => {
  test('I0: two that annotate one checkpoint are both kept, and so is one beside a commit', async () => {
    const run = timedRun();
    await using writer = run.open({ settings: PAGED, attempt: 'job' });
    await saveVersions(writer, [1, 2, 3], run.clock);
    await using one = run.open({ settings: PAGED });
    await using other = run.open({ settings: PAGED });
    await Promise.all([
      one.admin.annotate(1, { metrics: { auc: 0.9, f1: 1 } }),
      other.admin.annotate(1, { metrics: { bleu: 0.3 }, metadata: { by: 'other' } }),
      saveVersions(writer, [4]),
    ]);
    expect(await metricsOf(one)).toMatchObject({
      1: { loss: 0.1, auc: 0.9, f1: 1, bleu: 0.3 },
      4: { loss: 0.4 },
    });
  });

  test('I7: an annotation without an answer of the store is OutcomeUnknown; recover tells, and it may be repeated', async () => {
    const run = await runOf([1]);
    let isDown = false;
    const store = new FaultyStore(new MemoryStore(run.bucket), ({ operation, key }) => {
      isDown ||= operation === 'create' && key.startsWith('catalog/');
      return isDown ? { effect: 'once', reply: 'error' } : undefined;
    });
    const settings = { ...SETTINGS, recordTimeoutMs: 30, retryDelayMsMax: 1 };
    await using manager = run.open({ store, settings });
    const error = await manager.admin
      .annotate(1, { metrics: { auc: 0.9 } })
      .catch((reason: unknown) => reason);
    if (!isCheckpointError(error, 'OutcomeUnknown')) throw error;
    expect(error.message).toBe('it is not known whether the annotation of version 1 took effect');
    isDown = false;
    await using after = run.open();
    expect(await after.recover(error.context.token ?? '')).toMatchObject({
      outcome: 'committed',
      detail: 'the annotate decision took effect',
    });
    const before = entryCount(run);
    await after.admin.annotate(1, { metrics: { auc: 0.9 } });
    expect(entryCount(run)).toBe(before);
  });
});

describe('annotate that cannot be', () => {
  test('a version that is missing, removed, retired or quarantined: each has its own error', async () => {
    const run = await runOf([1, 2, 3, 4]);
    await using manager = run.open();
    const annotate = (version: number) => failure(manager.admin.annotate(version, { metrics: { auc: 1 } }));
    expect(await annotate(9)).toBe('NotFound: version 9 is not in the catalog');
    await manager.admin.collect({ policy: { keepLast: 3, graceMs: 0 }, force: true });
    await manager.admin.collect({ policy: { keepLast: 3, graceMs: 0 }, force: true });
    expect(await annotate(1)).toBe('NotFound: version 1 was removed');
    await manager.admin.collect({ policy: { keepLast: 2, graceMs: 60_000 }, force: true });
    expect(await annotate(2)).toBe('Conflict: version 2 is retired: undelete it first');
    const payload = run.bucket.keys().find((key) => /^version_3\/.*\/a$/.test(key)) as string;
    run.bucket.damage(payload, () => bytes(1000, 99));
    await manager.admin.verify({ version: 3, quarantine: true });
    expect(await annotate(3)).toMatch(/^Corrupt: version 3 is quarantined: /);
    await using none = open(newBucket());
    expect(await failure(none.admin.annotate(1, { metrics: { auc: 1 } }))).toMatch(
      /^NotFound: there is no run at/,
    );
  });

  test.each([
    ['nothing', {}, 'there is nothing to record: pass metrics, metadata, or both'],
    ['no name', { metrics: {}, metadata: {} }, 'there is nothing to record'],
    ['NaN', { metrics: { auc: Number.NaN } }, 'metric "auc" is NaN; it takes a finite number'],
    ['infinity', { metrics: { auc: -1 / 0 } }, 'metric "auc" is -Infinity; it takes a finite number'],
    [
      'text for a number',
      { metrics: { auc: '1' as never } },
      'metric "auc" is "1"; it takes a finite number',
    ],
    ['a number for text', { metadata: { n: 1 as never } }, 'metadata "n" is of type number; it takes text'],
    ['a metric without a name', { metrics: { '': 1 } }, 'the name of a metric is empty'],
    ['metadata without a name', { metadata: { '': 'x' } }, 'the name of metadata is empty'],
    ['half a character', { metadata: { note: '\ud83d' } }, 'metadata "note" is not valid Unicode'],
    ['half a name', { metrics: { '\ud83d': 1 } }, 'the name of a metric is not valid Unicode'],
    ['a long name', { metrics: { ['m'.repeat(257)]: 1 } }, 'has 257 characters; it takes at most 256'],
    [
      'a long name of text',
      { metadata: { ['m'.repeat(257)]: '' } },
      'has 257 characters; it takes at most 256',
    ],
    [
      'much text',
      { metadata: { note: 'x'.repeat(4096) } },
      'the metadata has 4107 bytes; a checkpoint is annotated with at most 4096',
    ],
    [
      'many metrics',
      { metrics: Object.fromEntries(Array.from({ length: 257 }, (_, at) => [`m${at}`, at])) },
      'there are 257 metrics; a checkpoint takes at most 256',
    ],
  ])('%s is refused before the store is asked', async (_, annotation, message) => {
    const store = new FaultyStore(new MemoryStore(newBucket()), () => {
      throw new Error('the store was asked');
    });
    await using manager = open(newBucket(), { store });
    const said = await failure(manager.admin.annotate(1, annotation));
    expect(said).toMatch(/^InvalidArgument: /);
    expect(said).toContain(message);
  });

  test('more than a checkpoint takes, with what it has, is Conflict', async () => {
    const run = await runOf([1]);
    await using manager = run.open();
    await manager.admin.annotate(1, { metadata: { note: 'x'.repeat(3000) } });
    expect(await failure(manager.admin.annotate(1, { metadata: { more: 'x'.repeat(3000) } }))).toBe(
      'Conflict: version 1@1: its annotated metadata would have 6021 bytes; a checkpoint takes at most 4096',
    );
    await manager.admin.annotate(1, { metadata: { note: '', more: 'x'.repeat(3000) } });
  });
});

describe('a save of a version that is committed already', () => {
  const content = { buffers: { a: bytes(10) }, version: 1 };

  test('records other metrics and metadata than those of the commit', async () => {
    await using manager = open(newBucket());
    const first = await manager.save({ ...content, metrics: { loss: 2 }, metadata: { by: 'me' } });
    expect(first).toMatchObject({ wasCommittedBefore: false, isAnnotated: false });
    const again = { ...content, metrics: { loss: 2, auc: 0.9 }, metadata: { by: 'me', note: 'x' } };
    expect(await manager.save(again)).toMatchObject({ wasCommittedBefore: true, isAnnotated: true });
    expect(await metricsOf(manager)).toEqual({ 1: { loss: 2, auc: 0.9 } });
    await using checkpoint = await manager.get(1);
    expect({ ...(await checkpoint?.details())?.metadata }).toEqual({ by: 'me', note: 'x' });
    expect((await manager.admin.log({ limit: 1 }))[0]).toMatchObject({
      kind: 'annotate',
      reason: 'auc=0.9, note="x"',
    });
  });

  test('a repeat of the commit changes nothing, also if it was annotated with something newer', async () => {
    await using manager = open(newBucket());
    await manager.save({ ...content, metrics: { loss: 2 } });
    await manager.admin.annotate(1, { metrics: { loss: 1 } });
    expect(await manager.save({ ...content, metrics: { loss: 2 } })).toMatchObject({ isAnnotated: false });
    expect(await manager.save(content)).toMatchObject({ isAnnotated: false });
    expect(await metricsOf(manager)).toEqual({ 1: { loss: 1 } });
  });

  test('each of several writers is compared with its own metadata', async () => {
    const bucket = newBucket();
    const save = async (index: number, metrics: Record<string, number>) => {
      await using manager = open(bucket, { attempt: 'job', writer: { index, count: 2 } });
      return await manager.save({
        version: 1,
        buffers: { [`w${index}`]: bytes(10, index) },
        metrics,
        noWait: true,
      });
    };
    await save(0, { loss: 0.5 });
    await save(1, { loss: 0.6 });
    // The lowest writer's loss stays. The repeat by the other writer changes nothing.
    expect(await save(1, { loss: 0.6 })).toMatchObject({ wasCommittedBefore: true, isAnnotated: false });
    expect(await save(1, { loss: 0.7 })).toMatchObject({ wasCommittedBefore: true, isAnnotated: true });
    await using reader = open(bucket);
    expect(await metricsOf(reader)).toEqual({ 1: { loss: 0.7 } });
  });

  test('refuses aloud what cannot be recorded', async () => {
    const run = await runOf([1, 2]);
    await using manager = run.open();
    const again = { version: 1, buffers: { a: bytes(1000, 1) } };
    expect(await failure(manager.save({ ...again, metadata: { note: 'x'.repeat(5000) } }))).toMatch(
      /^Conflict: version 1@1: its annotated metadata would have 5011 bytes/,
    );
    await manager.admin.collect({ policy: { keepLast: 1 }, force: true });
    expect(await failure(manager.save({ ...again, metrics: { auc: 1 } }))).toBe(
      'Conflict: version 1 is retired: undelete it first',
    );
    expect(await manager.save({ ...again, metrics: { loss: 0.1 } })).toMatchObject({ isAnnotated: false });
  });

  test('delivered before and not committed: the receipt stands, and a warning says so', async () => {
    const bucket = newBucket();
    const warnings: string[] = [];
    const logger = {
      log: (level: string, message: string) => void (level === 'warn' && warnings.push(message)),
    };
    await using manager = open(bucket, { attempt: 'job', writer: { index: 0, count: 2 }, logger });
    const save = (metrics: Record<string, number>) =>
      manager.save({ version: 1, buffers: { a: bytes(10) }, metrics, noWait: true });
    await save({ loss: 1 });
    await save({ loss: 1 });
    expect(warnings).toEqual([]);
    await save({ loss: 2 });
    expect(warnings.join()).toContain('writer 0 delivered version 1 before, with other metrics or metadata');
  });
});

test('a rebuild has the metrics of the manifests: what came after the commits is lost', async () => {
  const bucket = new MemoryBucket({ crc32c, mayReuseKey: ({ key }) => key.startsWith('catalog/') });
  await using manager = open(bucket);
  await manager.save({ version: 1, buffers: { a: bytes(10) }, metrics: { loss: 0.1 } });
  await manager.admin.annotate(1, { metrics: { auc: 0.9 }, metadata: { note: 'x' } });
  for (const key of bucket.keys().filter((each) => each.startsWith('catalog/'))) bucket.remove(key);
  await using other = open(bucket);
  await other.admin.rebuildCatalog();
  expect(await metricsOf(other)).toEqual({ 1: { loss: 0.1 } });
});

test('I0: an older Holdfast carries annotated metadata along under its own minor, and its entry is read', () => {
  const key = 'catalog/00000000000000000043.json';
  const written = readFileSync(new URL('../golden/v1/catalog-entry-annotated.json', import.meta.url));
  const tail = written.subarray(85).toString().replace(',"minor":1', '');
  const digest = createHash('sha256').update(tail).digest('hex');
  const carried = Buffer.from(`{"checksum":"sha256:${digest}"${tail}`);
  const read = (bytes: Uint8Array) => decodeRecord('catalog-entry', bytes, { key });
  expect(read(carried)).toMatchObject({ format: { minor: 0 }, state: read(written).state });
});
