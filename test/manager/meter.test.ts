import { AsyncLocalStorage } from 'node:async_hooks';
import type { Measured, MeasuredSpan, MeasuredWork, Meter } from '@holdfast/core';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

interface Span extends Measured {
  readonly work: MeasuredWork;
  readonly inside: MeasuredWork | undefined;
  readonly outcome: string;
}

/** Keeps each span when it ends, with the span that was active when it began. */
class KeptSpans implements Meter {
  readonly spans: Span[] = [];
  readonly #active = new AsyncLocalStorage<MeasuredWork>();

  async measure<T>(work: MeasuredWork, given: Measured, run: (span: MeasuredSpan) => Promise<T>): Promise<T> {
    let known = given;
    const inside = this.#active.getStore();
    const note = (outcome: string) => this.spans.push({ ...known, work, inside, outcome });
    const set = (more: Measured) => {
      known = { ...known, ...more };
    };
    try {
      const result = await this.#active.run(work, () => run({ set }));
      note('ok');
      return result;
    } catch (error) {
      note((error as { code?: string }).code ?? 'no code');
      throw error;
    }
  }
}

const nested = ({ spans }: KeptSpans) => spans.map(({ work, inside }) => [work, inside]);

describe('a meter', () => {
  test('measures a save, its files and its commit, each inside the save', async () => {
    const meter = new KeptSpans();
    await using manager = open(newBucket(), { meter });
    await manager.save({ version: 7, buffers: { a: bytes(100_000), b: bytes(10) } });
    expect(nested(meter)).toEqual(
      expect.arrayContaining([
        ['upload', 'save'],
        ['commit', 'save'],
        ['save', undefined],
      ]),
    );
    const { uri } = manager;
    const upload = meter.spans.find(({ name }) => name === 'a');
    expect(upload).toMatchObject({ work: 'upload', uri, sizeBytes: 100_000, referencedBytes: 0 });
    expect(upload?.key).toMatch(/\/a$/);
    const sizes = { version: 7n, sizeBytes: 100_010, fileCount: 2 };
    expect(meter.spans.find(({ work }) => work === 'commit')).toMatchObject({
      ...sizes,
      writer: { index: 0, count: 1 },
    });
    expect(meter.spans.at(-1)).toMatchObject({ work: 'save', referencedBytes: 0, outcome: 'ok', ...sizes });
  });

  test('tells which bytes were stored before', async () => {
    const meter = new KeptSpans();
    await using manager = open(newBucket(), { meter });
    for (const version of [1, 2, 3]) await manager.save({ version, buffers: { a: bytes(100_000) } });
    const last = meter.spans.filter(({ version }) => version === 3n).at(-1);
    expect(last).toMatchObject({ work: 'save', referencedBytes: 100_000 });
    expect(meter.spans.filter(({ work }) => work === 'upload').at(-1)).toMatchObject({
      referencedBytes: 100_000,
    });
  });

  test('measures a restore and its files', async () => {
    const bucket = newBucket();
    await using writer = open(bucket);
    await writer.save({ version: 1, buffers: { a: bytes(1000) } });
    const meter = new KeptSpans();
    await using manager = open(bucket, { meter });
    await manager.restore({ to: { a: new Uint8Array(1000) } });
    expect(nested(meter)).toEqual([
      ['download', 'restore'],
      ['restore', undefined],
    ]);
    expect(meter.spans[0]).toMatchObject({ name: 'a', sizeBytes: 1000 });
    expect(meter.spans[1]).toMatchObject({ version: 1n, sizeBytes: 1000, fileCount: 1 });
  });

  test('gets the error of a save that was fenced', async () => {
    const bucket = newBucket();
    const meter = new KeptSpans();
    await using old = open(bucket, { meter, attempt: 'one' });
    await old.save({ version: 1, buffers: { a: bytes(10) } });
    await using newer = open(bucket, { attempt: 'two' });
    await newer.join();
    expect(await failure(old.save({ version: 2, buffers: { a: bytes(11) } }))).toMatch(/^Fenced/);
    expect(meter.spans.at(-1)).toMatchObject({ work: 'save', outcome: 'Fenced' });
  });

  const thrower = () => {
    throw new Error('no collector');
  };
  const meters: Record<string, Meter> = {
    'throws before the work': { measure: thrower },
    'throws after it has begun': {
      measure: (_work, _known, run) => {
        void run({ set: () => undefined });
        return thrower();
      },
    },
    'rejects after the work': {
      measure: async (_work, _known, run) => {
        await run({ set: () => undefined });
        return thrower();
      },
    },
    'throws while values are set': { measure: (_work, _known, run) => run({ set: thrower }) },
    'begins the work twice, and late': {
      measure: async (_work, _known, run) => {
        await null;
        void run({ set: () => undefined });
        return run({ set: () => undefined });
      },
    },
    'returns nothing': { measure: () => undefined as never },
  };

  test.each(Object.keys(meters))('that %s changes nothing', async (how) => {
    const warnings: string[] = [];
    const logger = {
      log: (level: string, message: string) => void (level === 'warn' && warnings.push(message)),
    };
    await using manager = open(newBucket(), { meter: meters[how], logger });
    await manager.save({ version: 1, buffers: { a: bytes(1000) } });
    const restored = new Uint8Array(1000);
    await manager.restore({ to: { a: restored } });
    expect(restored).toEqual(bytes(1000));
    expect(await manager.list()).toHaveLength(1);
    const isQuiet = how.startsWith('begins') || how.startsWith('returns');
    expect(warnings).toEqual(isQuiet ? [] : ['the meter threw an error; calls continue']);
  });
});
