import { CheckpointError, type RandomSource } from '@holdfast/core';
import type { UploadItem } from '@holdfast/core/internal/transfer/index';
import { FAULTS, refuse } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { ALONE } from '../with-workers/alone.ts';
import {
  bytesItem,
  bytesOf,
  chunksOf,
  failureOf,
  fileItem,
  freshKeys,
  isEqual,
  isWhole,
  MIB,
  NotedSource,
  PART,
  recordOf,
  type SetUpOptions,
  setUp,
  streamItem,
} from './memory-transfers.ts';

const SIZES = [0, 1, 4095, 4096, 4097, PART - 1, PART, PART + 1, 2 * PART, 3 * PART - 1, 5 * PART + 17];

describe('what was uploaded is what was recorded', () => {
  test.each(SIZES)('a file, bytes and a stream of %i bytes', async (size) => {
    const { bucket, transfers } = setUp();
    const data = bytesOf(size);
    const items = [
      fileItem('file', new NotedSource(data, { mode: 0o640 })),
      bytesItem('bytes', data),
      streamItem('stream', chunksOf(data, 1000)),
    ];
    const files = await transfers.upload(items);
    expect(files.map((file) => file.name)).toEqual(['file', 'bytes', 'stream']);
    for (const { mode, ...file } of files) {
      expect(file).toEqual(recordOf(file.name, `data/${file.name}.0`, data, PART));
      expect(mode).toBe(file.name === 'file' ? 0o640 : undefined);
      expect(isEqual(bucket.find(file.key)?.bytes, data)).toBe(true);
    }
    expect([bucket.openUploads(), bucket.violations, isWhole(transfers)]).toEqual([[], [], true]);
  });

  test.each([1, 7, PART - 1, PART, PART + 1, 10 * PART])(
    'a stream in chunks of %i bytes',
    async (chunkBytes) => {
      const { bucket, transfers } = setUp();
      const data = bytesOf(chunkBytes === 1 ? PART + 1 : 3 * PART + 5);
      const [file] = await transfers.upload([streamItem('s', chunksOf(data, chunkBytes))]);
      expect(isEqual(bucket.find(file?.key ?? '')?.bytes, data)).toBe(true);
    },
  );

  test('a stream that never waits and gives only empty chunks can be aborted', async () => {
    const { transfers } = setUp();
    async function* nothing() {
      while (true) yield new Uint8Array(0);
    }
    const upload = transfers.upload([streamItem('s', nothing())], { signal: AbortSignal.timeout(50) });
    await expect(upload).rejects.toMatchObject({ code: 'Aborted' });
  });

  test('a stream whose chunks are empty now and then', async () => {
    const { bucket, transfers } = setUp();
    async function* some() {
      for (const byte of [1, 2, 3]) {
        yield new Uint8Array(0);
        yield Uint8Array.of(byte);
      }
    }
    await transfers.upload([streamItem('s', some())]);
    expect(bucket.find('data/s.0')?.bytes).toEqual(Uint8Array.of(1, 2, 3));
  });

  test('one part is one create; more are an upload in parts', async () => {
    const operations = async (size: number) => {
      const { store, transfers } = setUp();
      await transfers.upload([bytesItem('a', bytesOf(size))]);
      await transfers.upload([streamItem('b', chunksOf(bytesOf(size), 999))]);
      return store.calls.map((call) => call.operation).join(' ');
    };
    expect(await operations(PART - 1)).toBe('create create');
    expect(await operations(0)).toBe('create create');
    const parts = 'beginUpload putPart putPart complete';
    expect(await operations(PART + 1)).toBe(`${parts} ${parts}`);
  });

  test('a stream above maxCreateBytes that ends within its first part is sent as one part', async () => {
    const { bucket, store, transfers } = setUp({ capabilities: { maxCreateBytes: 1000 } });
    await transfers.upload([streamItem('s', chunksOf(bytesOf(1001), 10))]);
    expect(store.calls.map((call) => call.operation)).toEqual(['beginUpload', 'putPart', 'complete']);
    expect(isEqual(bucket.find('data/s.0')?.bytes, bytesOf(1001))).toBe(true);
  });

  test('checksum answers what upload would, and sends nothing', async () => {
    for (const size of SIZES) {
      const { store, transfers } = setUp();
      const data = bytesOf(size);
      const items = () => [
        fileItem('file', new NotedSource(data, { mode: 0o600 })),
        bytesItem('bytes', data),
        streamItem('stream', chunksOf(data, 777)),
      ];
      const sums = await transfers.checksum(items());
      expect(store.calls).toEqual([]);
      const files = await transfers.upload(items());
      expect(sums).toEqual(files.map((file) => ({ ...file, key: '' })));
      expect(isWhole(transfers)).toBe(true);
    }
  });

  test('many small files, and none at all', async () => {
    const { bucket, transfers } = setUp();
    const items = Array.from({ length: 500 }, (_, index) => bytesItem(`f${index}`, bytesOf(index, index)));
    const files = await transfers.upload(items);
    expect(files.map((file) => file.sizeBytes)).toEqual(items.map((_, index) => index));
    expect(bucket.keys()).toHaveLength(500);
    expect(await transfers.upload([])).toEqual([]);
  });
});

describe('sources', () => {
  test('are opened when their turn comes, read once in order, checked after the last read, closed once', async () => {
    const steps: string[] = [];
    const source = new NotedSource(bytesOf(4 * PART), { before: (step) => steps.push(step) });
    const { store, transfers } = setUp({
      settings: { concurrency: 1 },
      plan: ({ operation }) => {
        steps.push(operation);
        return undefined;
      },
    });
    await transfers.upload([fileItem('a', source)]);
    expect(source.reads).toEqual([0, PART, 2 * PART, 3 * PART]);
    expect(steps.slice(-3)).toEqual(['assertUnchanged', 'complete', 'close']);
    expect([source.openCount, source.closeCount, store.calls.length]).toEqual([1, 1, 6]);
  });

  test.each(['in parts', 'whole'])(
    'one that changed (%s) is SourceChanged and leaves nothing',
    async (kind) => {
      const { bucket, transfers } = setUp();
      const changed = new CheckpointError('SourceChanged', 'it was written to');
      const source = new NotedSource(bytesOf(kind === 'whole' ? 100 : 3 * PART), {
        before: (step) => {
          if (step === 'assertUnchanged') throw changed;
        },
      });
      await expect(transfers.upload([fileItem('a', source)])).rejects.toBe(changed);
      expect([bucket.keys(), bucket.openUploads()]).toEqual([[], []]);
      expect([source.closeCount, isWhole(transfers)]).toEqual([1, true]);
    },
  );

  test('any step of a source that fails: its error, all closed, pool whole, no upload left open', async () => {
    for (let failing = 0; ; failing += 1) {
      const { bucket, transfers } = setUp();
      let step = 0;
      let failed = '';
      const before = (name: string) => {
        if (step++ !== failing) return;
        failed = name;
        throw new CheckpointError('Denied', `no ${name}`);
      };
      const sources = [PART * 3, 10, 0].map((size) => new NotedSource(bytesOf(size), { before }));
      const uploading = transfers.upload(sources.map((source, index) => fileItem(`f${index}`, source)));
      if (failed === '' || failed === 'close') await uploading.catch(() => undefined);
      const outcome = await uploading.then(
        () => 'done',
        (error: Error) => error.message,
      );
      // A failing close changes nothing: the bytes are already stored.
      expect(outcome).toBe(failed === '' || failed === 'close' ? 'done' : `no ${failed}`);
      expect([bucket.openUploads(), isWhole(transfers)]).toEqual([[], true]);
      for (const source of sources) expect(source.closeCount).toBe(source.openCount);
      if (failed === '') return;
    }
  });

  test('bytes that shrink while they are saved are SourceChanged', async () => {
    const shrinking = new Uint8Array(new ArrayBuffer(3 * PART, { maxByteLength: 3 * PART }));
    const { bucket, transfers } = setUp({
      plan: ({ operation }) => {
        if (operation === 'beginUpload') (shrinking.buffer as ArrayBuffer).resize(PART);
        return undefined;
      },
    });
    const error = await failureOf(transfers.upload([bytesItem('a', shrinking)]));
    expect(error.message).toBe(`the memory of the source had ${3 * PART} bytes and now has ${PART}`);
    expect([error.code, bucket.keys(), isWhole(transfers)]).toEqual(['SourceChanged', [], true]);
  });

  test('a stream that throws: Unexpected with name and cause; a CheckpointError passes as it is', async () => {
    for (const afterBytes of [0, 10, PART, 2 * PART + 1]) {
      for (const thrown of [new TypeError('the disk burns'), new CheckpointError('Aborted', 'discarded')]) {
        const { bucket, transfers } = setUp();
        async function* burning() {
          yield* chunksOf(bytesOf(afterBytes), 999);
          throw thrown;
        }
        const error = await failureOf(transfers.upload([streamItem('s', burning())]));
        if (thrown instanceof TypeError) {
          expect(error).toMatchObject({
            code: 'Unexpected',
            message: 'the stream of "s" failed: the disk burns',
          });
          expect(error.cause).toBe(thrown);
        } else expect(error).toBe(thrown);
        expect([bucket.keys(), bucket.openUploads(), isWhole(transfers)]).toEqual([[], [], true]);
      }
    }
  });

  test('a stream of a caller whose iterator is broken or throws at once: Unexpected with the name', async () => {
    const throwing = () => {
      throw new RangeError('no more');
    };
    const ends = async () => ({ done: true, value: undefined });
    const iterators: [unknown, string][] = [
      [throwing, 'no more'],
      [() => ({ next: throwing, return: throwing }), 'no more'],
      [() => ({ next: () => undefined }), 'next() gave no object'],
      [() => ({ return: ends }), 'is not a function'],
    ];
    for (const [iterate, reason] of iterators) {
      const { bucket, transfers } = setUp();
      const stream = { [Symbol.asyncIterator]: iterate } as AsyncIterable<Uint8Array>;
      const error = await failureOf(transfers.upload([streamItem('s', stream)]));
      expect([error.code, error.message]).toEqual(['Unexpected', expect.stringContaining(reason)]);
      expect([error.context.name, bucket.keys(), isWhole(transfers)]).toEqual(['s', [], true]);
    }
  });

  test('a stream of something else than bytes is InvalidArgument, and is told to end', async () => {
    const { transfers } = setUp();
    let ended = false;
    async function* text() {
      try {
        yield 'text' as unknown as Uint8Array;
        yield 'more' as unknown as Uint8Array;
      } finally {
        ended = true;
      }
    }
    const error = await failureOf(transfers.upload([streamItem('s', text())]));
    expect(error.message).toBe('the stream of "s" gave a chunk of type string; it takes Uint8Array');
    expect([error.code, ended, isWhole(transfers)]).toEqual(['InvalidArgument', true, true]);
  });

  test('a stream longer than the store takes is Unsupported and leaves nothing', async () => {
    const { bucket, transfers } = setUp({ capabilities: { maxParts: 3, maxPartBytes: PART } });
    await transfers.upload([streamItem('fits', chunksOf(bytesOf(3 * PART), 5000))]);
    const error = await failureOf(
      transfers.upload([streamItem('long', chunksOf(bytesOf(3 * PART + 1), 5000))]),
    );
    expect(error.message).toContain(`longer than ${3 * PART} bytes`);
    expect([error.code, bucket.keys()]).toEqual(['Unsupported', ['data/fits.0']]);
    expect([bucket.openUploads(), isWhole(transfers)]).toEqual([[], true]);
  });
});

describe('turns, memory, progress', () => {
  test('files take turns: a small file does not wait behind large ones, and each keeps its order', async () => {
    const { store, transfers } = setUp({ settings: { ...ALONE, concurrency: 2 } });
    await transfers.upload([
      bytesItem('a', bytesOf(20 * PART)),
      bytesItem('b', bytesOf(20 * PART)),
      bytesItem('small', bytesOf(10)),
    ]);
    const calls = store.calls.map(({ operation, key, partIndex }) => [operation, key, partIndex] as const);
    expect(calls.findIndex(([operation]) => operation === 'create')).toBeLessThan(6);
    const parts = calls.filter(([operation]) => operation === 'putPart');
    const inHalf = (key: string) => parts.slice(0, 20).filter((call) => call[1] === key).length;
    expect(Math.abs(inHalf('data/a.0') - inHalf('data/b.0'))).toBeLessThanOrEqual(2);
    for (const key of ['data/a.0', 'data/b.0']) {
      const order = parts.filter((call) => call[1] === key).map((call) => call[2] as number);
      for (const [place, index] of order.entries()) expect(Math.abs(place - index)).toBeLessThanOrEqual(2);
    }
  });

  test('I11: never more requests than the setting, never more memory than the budget, and both are used', async () => {
    const options: SetUpOptions = { settings: { ...ALONE, concurrency: 20, partSizeBytesMin: 2 * MIB } };
    const { store, transfers } = setUp(options);
    let underWay = 0;
    let most = 0;
    const begin = store.beginUpload.bind(store);
    store.beginUpload = async (key, uploadOptions) => {
      const upload = await begin(key, uploadOptions);
      const putPart = upload.putPart.bind(upload);
      upload.putPart = async (index, bytes, partOptions) => {
        underWay += 1;
        most = Math.max(most, underWay);
        await new Promise((resolve) => setImmediate(resolve));
        const receipt = await putPart(index, bytes, partOptions);
        underWay -= 1;
        return receipt;
      };
      return upload;
    };
    const data = new Uint8Array(20 * MIB);
    await transfers.upload([bytesItem('a', data), bytesItem('b', data)]);
    expect(most).toBe(8); // 16 MiB in parts of 2 MiB, although 20 requests were allowed
    expect(transfers.memory.peakBytes).toBe(transfers.memory.totalBytes);

    const few = setUp({ settings: { concurrency: 3 } });
    await few.transfers.upload([bytesItem('a', bytesOf(20 * PART))]);
    expect(few.transfers.memory.peakBytes).toBe(3 * PART);
  });

  test('streams beyond streamCountMax wait unread until others are done, and all arrive', async () => {
    const { bucket, transfers } = setUp({ settings: { partSizeBytesMin: 2 * MIB } });
    expect(transfers.streamCountMax).toBe(4);
    let open = 0;
    let most = 0;
    const counted = async function* (data: Uint8Array) {
      open += 1;
      most = Math.max(most, open);
      yield* chunksOf(data, MIB / 2);
      open -= 1;
    };
    const items = Array.from({ length: 11 }, (_, index) =>
      streamItem(`s${index}`, counted(bytesOf(5 * MIB, index))),
    );
    await Promise.all([transfers.upload(items.slice(0, 5)), transfers.upload(items.slice(5))]);
    expect(most).toBe(4);
    expect(bucket.keys()).toHaveLength(11);
    expect(isWhole(transfers)).toBe(true);
  });

  test('streams whose producers wait for each other all get on, up to streamCountMax', async () => {
    const { bucket, transfers } = setUp({ settings: { partSizeBytesMin: 2 * MIB } });
    const count = transfers.streamCountMax;
    let turn = 0;
    const waiting = new Set<() => void>();
    const inStep = async function* (index: number) {
      for (let round = 0; round < 6; round += 1) {
        while (turn !== round * count + index) await new Promise<void>((resolve) => waiting.add(resolve));
        turn += 1;
        for (const wake of waiting) wake();
        waiting.clear();
        yield new Uint8Array(MIB);
      }
    };
    await transfers.upload(
      Array.from({ length: count }, (_, index) => streamItem(`s${index}`, inStep(index))),
    );
    expect(bucket.keys()).toHaveLength(count);
  });

  test('a stream without input does not keep files from being saved', async () => {
    const { bucket, transfers } = setUp({ settings: { partSizeBytesMin: 8 * MIB } });
    const { promise: fed, resolve: feed } = Promise.withResolvers<void>();
    async function* idle() {
      yield new Uint8Array(10);
      await fed;
    }
    const uploading = transfers.upload([streamItem('idle', idle())]);
    await transfers.upload([bytesItem('file', new Uint8Array(20 * MIB))]);
    expect(bucket.keys()).toEqual(['data/file.0']);
    feed();
    await uploading;
  });

  test('progress never goes back and ends at the total, once for each file', async () => {
    const { transfers } = setUp({
      plan: ({ operation, key }) =>
        operation === 'complete' && key === 'data/large.0' ? refuse('Corrupt') : undefined,
    });
    const seen = new Map<string, [number, number][]>();
    await transfers.upload(
      [
        bytesItem('large', bytesOf(5 * PART + 1)),
        bytesItem('small', bytesOf(10)),
        bytesItem('empty', bytesOf(0)),
        streamItem('stream', chunksOf(bytesOf(4 * PART), 1000)),
      ],
      { onBytes: (name, done, total) => seen.set(name, [...(seen.get(name) ?? []), [done, total]]) },
    );
    expect(seen.get('small')).toEqual([[10, 10]]);
    expect(seen.get('empty')).toEqual([[0, 0]]);
    for (const [name, size] of [
      ['large', 5 * PART + 1],
      ['stream', 4 * PART],
    ] as const) {
      const calls = seen.get(name) ?? [];
      expect(calls.length).toBeGreaterThan(3);
      expect(calls.at(-1)).toEqual([size, size]);
      for (const [index, [done, total]] of calls.slice(0, -1).entries()) {
        expect(done).toBeGreaterThan(calls[index - 1]?.[0] ?? 0);
        expect(done).toBeLessThan(total);
      }
    }
  });
});

describe('the end', () => {
  test('one file that fails stops the others at once', async () => {
    const { bucket, store, transfers } = setUp({ settings: { concurrency: 2 } });
    let callsBefore = Number.NaN;
    const broken = new NotedSource(bytesOf(100), {
      before: (step) => {
        if (step !== 'readInto') return;
        callsBefore = store.calls.length;
        throw new CheckpointError('Denied', 'unreadable');
      },
    });
    const items: UploadItem[] = [bytesItem('a', bytesOf(100 * PART)), fileItem('broken', broken)];
    for (let index = 0; index < 200; index += 1) items.push(bytesItem(`later${index}`, bytesOf(10)));
    expect((await failureOf(transfers.upload(items))).message).toBe('unreadable');
    expect(store.calls.length - callsBefore).toBeLessThan(10);
    expect([bucket.openUploads(), isWhole(transfers)]).toEqual([[], true]);
    const [again] = await transfers.upload([bytesItem('again', bytesOf(10))]);
    expect(again?.sizeBytes).toBe(10);
  });

  test('an error of another kind passes unchanged', async () => {
    const { transfers } = setUp();
    const bug = new TypeError('bug');
    const open = (): Promise<RandomSource> => Promise.reject(bug);
    await expect(transfers.upload([{ name: 'a', key: freshKeys('a'), source: { open } }])).rejects.toBe(bug);
  });

  test('close stops what is under way and refuses what comes; it can be repeated', async () => {
    const { bucket, transfers } = setUp({
      plan: ({ operation }) => (operation === 'putPart' ? FAULTS.stall : undefined),
    });
    const source = new NotedSource(bytesOf(5 * PART));
    async function* endless() {
      for (;;) yield new Uint8Array(10);
    }
    const uploads = [
      failureOf(transfers.upload([fileItem('a', source)])),
      failureOf(transfers.upload([streamItem('s', endless())])),
    ];
    await new Promise((resolve) => setImmediate(resolve));
    await transfers.close();
    for (const error of await Promise.all(uploads)) {
      expect([error.code, error.message]).toEqual(['Aborted', 'the manager was closed']);
    }
    expect([source.closeCount, bucket.openUploads(), isWhole(transfers)]).toEqual([1, [], true]);
    expect((await failureOf(transfers.upload([]))).code).toBe('Aborted');
    await transfers.close();
  });
});
