import { CheckpointError, type ErrorCode } from '@holdfast/core';
import type { UploadItem } from '@holdfast/core/internal/transfer/index';
import { MemoryBucket, type StoreOperation } from '@holdfast/core/store';
import { crc32c, FAULTS, type Fault, type FaultName, refuse } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import {
  bytesItem,
  bytesOf,
  chunksOf,
  failureOf,
  fileItem,
  isEqual,
  isWhole,
  MIB,
  NotedSource,
  PART,
  type SetUpOptions,
  setUp,
  streamItem,
} from './memory-transfers.ts';

const DATA = {
  large: bytesOf(4 * PART + 99, 1),
  small: bytesOf(5000, 2),
  empty: bytesOf(0),
  stream: bytesOf(2 * PART + 1, 3),
  trickle: bytesOf(50, 4),
};
type Name = keyof typeof DATA;
const NAMES = Object.keys(DATA) as Name[];

/** Every kind of upload: parts, whole files, empty ones, streams of both kinds. */
function setUpAll(options: SetUpOptions = {}) {
  const rig = setUp(options);
  const source = new NotedSource(DATA.large);
  const items: UploadItem[] = [
    fileItem('large', source),
    bytesItem('small', DATA.small),
    bytesItem('empty', DATA.empty),
    streamItem('stream', chunksOf(DATA.stream, 7001)),
    streamItem('trickle', chunksOf(DATA.trickle, 20)),
  ];
  return { ...rig, source, items };
}

/** The store calls of an upload without faults. */
async function plainCalls() {
  const { items, store, transfers } = setUpAll();
  await transfers.upload(items);
  return store.calls.map(({ operation, number }) => ({ operation, number }));
}

const CALLS = await plainCalls();
/** In addition to creates: 2 × beginUpload, 5 + 3 × putPart, 2 × complete. */
const CALL_COUNT = 15;

test('the calls that are made to fail below are these', () => {
  const count = (operation: StoreOperation) => CALLS.filter((call) => call.operation === operation).length;
  expect([count('create'), count('beginUpload'), count('putPart'), count('complete')]).toEqual([3, 2, 8, 2]);
  expect(CALLS).toHaveLength(CALL_COUNT);
});

/** A disk that corrupts a bit of objects assembled from parts, the first few times. */
class SpoilingBucket extends MemoryBucket {
  spoilsLeft: number;

  constructor(spoils: number) {
    super({ crc32c });
    this.spoilsLeft = spoils;
  }

  override insert(key: string, bytes: Uint8Array) {
    const isSpoiled = bytes.byteLength > PART && this.spoilsLeft-- > 0;
    return super.insert(key, isSpoiled ? bytes.with(5, (bytes[5] as number) ^ 1) : bytes);
  }
}

describe('I9: the answer to a completion is lost, and the object that is found has another checksum', () => {
  /** Loses the first answer of each upload. */
  const loseFirst = () => {
    const completed = new Set<string>();
    return ({ operation, key }: { operation: StoreOperation; key: string }) =>
      operation === 'complete' && completed.size < completed.add(key).size ? FAULTS.loseReply : undefined;
  };

  test('the file is sent again under a fresh key', async () => {
    const bucket = new SpoilingBucket(1);
    const { transfers } = setUp({ bucket, plan: loseFirst() });
    const [file] = await transfers.upload([fileItem('large', new NotedSource(DATA.large))]);
    expect(bucket.keys()).toHaveLength(2);
    expect(isEqual(bucket.find(file?.key as string)?.bytes, DATA.large)).toBe(true);
  });

  test('again and again: Corrupt with both checksums', async () => {
    const { transfers } = setUp({ bucket: new SpoilingBucket(99), plan: loseFirst() });
    const failed = await failureOf(transfers.upload([fileItem('large', new NotedSource(DATA.large))]));
    expect(failed).toMatchObject({ code: 'Corrupt', message: expect.stringContaining('out of') });
  });
});

describe('one call goes wrong for a while: the upload succeeds and every object is right', () => {
  const faults: [string, Fault][] = (Object.keys(FAULTS) as FaultName[])
    .filter((name) => FAULTS[name].reply !== 'stop')
    .map((name) => [name, FAULTS[name]]);
  faults.push(['delay, landing at once', { ...FAULTS.delay, lateAfterCalls: 1 }]);
  faults.push(['delay, landing soon', { ...FAULTS.delay, lateAfterCalls: 4 }]);
  faults.push(['duplicate, landing soon', { ...FAULTS.duplicateLate, lateAfterCalls: 3 }]);
  faults.push(['throttled', refuse('Throttled')]);

  test.each(faults)('%s', async (_, fault) => {
    for (let failing = 0; failing < CALL_COUNT; failing += 1) {
      const rig = setUpAll({ plan: ({ number }) => (number === failing ? fault : undefined) });
      const files = await rig.transfers.upload(rig.items);
      await rig.lateEffects.releaseAll();
      for (const file of files) {
        const expected = DATA[file.name as Name];
        expect(file.sizeBytes).toBe(expected.byteLength);
        expect(isEqual(rig.bucket.find(file.key)?.bytes, expected), `${file.name}, call ${failing}`).toBe(
          true,
        );
      }
      expect(files.map((file) => file.name)).toEqual(NAMES);
      expect([rig.source.closeCount, isWhole(rig.transfers), rig.bucket.violations]).toEqual([1, true, []]);
    }
  });
});

describe('a store that refused the bytes on the way', () => {
  test.each(['create', 'putPart'] as const)('%s: the same bytes are sent again', async (operation) => {
    let refused = 0;
    const rig = setUpAll({
      plan: (call) => (call.operation === operation && refused++ < 2 ? refuse('Corrupt') : undefined),
    });
    const files = await rig.transfers.upload(rig.items);
    for (const file of files)
      expect(isEqual(rig.bucket.find(file.key)?.bytes, DATA[file.name as Name])).toBe(true);
    expect(rig.store.calls).toHaveLength(CALL_COUNT + 2);
  });

  test.each(['create', 'putPart'] as const)(
    '%s, every time: the advice is not to restore another version',
    async (operation) => {
      const rig = setUpAll({
        plan: (call) => (call.operation === operation ? refuse('Corrupt') : undefined),
        settings: { retryCountMax: 2 },
      });
      const error = await failureOf(rig.transfers.upload(rig.items));
      expect(error).toMatchObject({ code: 'Corrupt', status: 'exhausted' });
      expect(error.context['advice']).toContainEqual(expect.stringContaining('no stored object is damaged'));
    },
  );

  test('complete: a file is sent once more under a fresh key, a stream cannot be', async () => {
    const once = (name: string) => {
      let refused = 0;
      return setUpAll({
        plan: ({ operation, key }) =>
          operation === 'complete' && key.includes(name) && refused++ === 0 ? refuse('Corrupt') : undefined,
      });
    };
    const file = once('large');
    const [large] = await file.transfers.upload(file.items);
    expect(large?.key).toBe('data/large.1');
    expect(isEqual(file.bucket.find('data/large.1')?.bytes, DATA.large)).toBe(true);
    expect([file.bucket.openUploads(), file.bucket.find('data/large.0')]).toEqual([[], undefined]);

    const stream = once('stream');
    const error = await failureOf(stream.transfers.upload(stream.items));
    expect(error).toMatchObject({ code: 'Corrupt', status: 'exhausted' });
    expect([stream.bucket.openUploads(), isWhole(stream.transfers)]).toEqual([[], true]);
  });

  test('complete, every time: given up after three attempts, with the code of the store', async () => {
    const rig = setUpAll({
      plan: ({ operation }) => (operation === 'complete' ? refuse('Corrupt') : undefined),
    });
    const error = await failureOf(rig.transfers.upload(rig.items.slice(0, 1)));
    expect(error).toMatchObject({ code: 'Corrupt', status: 'exhausted' });
    expect(error.message).toContain('tried 3 times');
    expect(error.context['advice']).toContainEqual(expect.stringContaining('no stored object is damaged'));
    expect(rig.store.calls.filter(({ operation }) => operation === 'abort')).toHaveLength(3);
    expect([rig.bucket.openUploads(), rig.source.closeCount]).toEqual([[], 1]);
  });
});

describe('a store that has something else than was sent', () => {
  test('a receipt of another size or checksum: the part is sent again', async () => {
    for (const wrong of [{ sizeBytes: 5 }, { crc32c: 5 }, { index: 1 }]) {
      const rig = setUpAll();
      const begin = rig.store.beginUpload.bind(rig.store);
      let answers = 0;
      rig.store.beginUpload = async (key, options) => {
        const upload = await begin(key, options);
        const putPart = upload.putPart.bind(upload);
        upload.putPart = async (index, bytes, partOptions) => {
          const receipt = await putPart(index, bytes, partOptions);
          return index === 2 && answers++ === 0 ? { ...receipt, ...wrong } : receipt;
        };
        return upload;
      };
      const [file] = await rig.transfers.upload(rig.items.slice(0, 1));
      expect(isEqual(rig.bucket.find(file?.key ?? '')?.bytes, DATA.large)).toBe(true);
      expect(answers).toBe(2);
    }
  });

  test('a part that was replaced by other bytes: the file is sent once more, also where the store compares nothing', async () => {
    const bucket = new MemoryBucket();
    const rig = setUpAll({
      bucket,
      plan: ({ operation, key }) => {
        const [upload] = bucket.openUploads();
        if (operation === 'complete' && key === 'data/large.0') {
          upload?.parts.set(1, { bytes: new Uint8Array(PART), etag: 'other', crc32c: 1 });
        }
        return undefined;
      },
    });
    const [file] = await rig.transfers.upload(rig.items.slice(0, 1));
    expect([file?.key, bucket.keys()]).toEqual(['data/large.1', ['data/large.1']]);
    expect(isEqual(bucket.find('data/large.1')?.bytes, DATA.large)).toBe(true);
  });

  test('bytes that changed in our own memory are not sent again: Corrupt', async () => {
    const rig = setUpAll();
    rig.store.create = async (key, bytes) => {
      bytes[0] = (bytes[0] as number) ^ 1;
      throw new CheckpointError('Corrupt', `${key}: wrong checksum`);
    };
    const error = await failureOf(rig.transfers.upload(rig.items.slice(1, 2)));
    expect(error).toMatchObject({
      code: 'Corrupt',
      status: 'permanent',
      message: 'data/small.0: wrong checksum',
    });
  });
});

describe('an upload that has vanished', () => {
  test('a file is sent once more under a fresh key', async () => {
    let rig = setUpAll();
    rig = setUpAll({
      plan: ({ operation, key }) => {
        if (operation === 'complete' && key === 'data/large.0') {
          for (const upload of rig.bucket.openUploads()) rig.bucket.endUpload(upload.token);
        }
        return undefined;
      },
    });
    const [file] = await rig.transfers.upload(rig.items.slice(0, 1));
    expect(file?.key).toBe('data/large.1');
    expect(rig.bucket.keys()).toEqual(['data/large.1']);
  });

  test('while its parts are sent: it is begun anew under a fresh key', async () => {
    const rig = setUpAll({
      plan: ({ operation, partIndex, key }) =>
        operation === 'putPart' && partIndex === 2 && key === 'data/large.0' ? refuse('NotFound') : undefined,
    });
    const [file] = await rig.transfers.upload(rig.items.slice(0, 1));
    expect(file?.key).toBe('data/large.1');
    expect([rig.bucket.keys(), rig.bucket.openUploads()]).toEqual([['data/large.1'], []]);
  });

  test('again and again: it ends, says that the store does not keep it, and leaves nothing', async () => {
    const rig = setUpAll({
      plan: ({ operation, partIndex }) =>
        operation === 'putPart' && partIndex === 2 ? refuse('NotFound') : undefined,
    });
    const error = await failureOf(rig.transfers.upload(rig.items.slice(0, 1)));
    expect([error.code, error.status]).toEqual(['Unavailable', 'exhausted']);
    expect([rig.bucket.keys(), rig.bucket.openUploads(), isWhole(rig.transfers)]).toEqual([[], [], true]);
  });

  test('an object of another size under the key is not taken for ours', async () => {
    const rig = setUpAll();
    rig.bucket.insert('data/large.0', bytesOf(10));
    const [file] = await rig.transfers.upload(rig.items.slice(0, 1));
    expect(file?.key).toBe('data/large.1');
  });
});

describe('one call is refused for good', () => {
  const codes: ErrorCode[] = ['Denied', 'StorageFull', 'ReadOnly', 'Unexpected'];
  test.each(codes)(
    '%s at any call: that error, all settled, no upload left open, nothing else begun',
    async (code) => {
      for (let failing = 0; failing < CALL_COUNT; failing += 1) {
        const rig = setUpAll({ plan: ({ number }) => (number === failing ? refuse(code) : undefined) });
        expect((await failureOf(rig.transfers.upload(rig.items))).code).toBe(code);
        expect(rig.bucket.openUploads()).toEqual([]);
        expect([rig.source.closeCount, isWhole(rig.transfers)]).toEqual([rig.source.openCount, true]);
        // The failure stops the rest: at most the requests in progress are still answered, and
        // uploads are aborted.
        expect(rig.store.calls.length).toBeLessThanOrEqual(failing + 1 + 4 + 2);
        expect(rig.store.calls.some(({ operation }) => operation === 'deleteMany')).toBe(false);
      }
    },
  );
});

describe('a store that stays away', () => {
  test('every call fails: exhausted after the tries of the setting, with their number', async () => {
    const rig = setUpAll({
      settings: { retryCountMax: 3 },
      plan: () => FAULTS.loseRequest,
    });
    const details: string[] = [];
    const error = await failureOf(
      rig.transfers.upload(rig.items.slice(0, 1), { onRetry: (detail) => details.push(detail) }),
    );
    expect(error).toMatchObject({ code: 'Unavailable', status: 'exhausted' });
    expect(error.message).toContain('begin of "large": tried 4 times');
    expect(details).toHaveLength(3);
    expect(details[0]).toMatch(/^begin of "large": Unavailable: .*; try 2 in \d+ ms$/);
    expect([rig.store.calls.length, rig.source.closeCount]).toEqual([4, 1]);
  });

  test('I11: an upload that can neither go on nor be aborted ends within seconds all the same', async () => {
    const rig = setUpAll({
      plan: ({ operation }) => (operation === 'putPart' || operation === 'abort' ? FAULTS.stall : undefined),
      settings: { retryCountMax: 1, stallTimeoutMs: 1000 },
    });
    const error = await failureOf(rig.transfers.upload(rig.items.slice(0, 1)));
    expect(error).toMatchObject({ code: 'Unavailable', status: 'exhausted' });
    expect(error.message).toMatch(
      /part \d of "large": tried 2 times in 2 s: part \d of "large": no answer for 2 s/,
    );
    expect(rig.clock.monotonicMs()).toBeLessThan(10_000);
    expect(isWhole(rig.transfers)).toBe(true);
  });

  test('many calls that fail together use up the budget, and go on slowly from then on', async () => {
    const rig = setUp({
      settings: { retryCountMax: 1000, retryDelayMsBase: 0, concurrency: 1 },
      plan: ({ number }) => (number % 2 === 0 ? FAULTS.loseRequest : undefined),
    });
    const items = Array.from({ length: 5000 }, (_, index) => bytesItem(`f${index}`, bytesOf(10)));
    await rig.transfers.upload(items);
    expect(rig.transfers.retryPolicy('any request', {}).budget?.repeats).toBeLessThan(2);
    expect(rig.clock.monotonicMs()).toBeGreaterThan(10 * 60_000);
  });
});

describe('the caller stops it', () => {
  test('at any call: Aborted, all settled, no upload left open', async () => {
    for (let stopping = 0; stopping < CALL_COUNT; stopping += 1) {
      const stop = new AbortController();
      const rig = setUpAll({
        plan: ({ number }) => {
          if (number === stopping) stop.abort();
          return undefined;
        },
      });
      expect((await failureOf(rig.transfers.upload(rig.items, { signal: stop.signal }))).code).toBe(
        'Aborted',
      );
      expect([rig.source.closeCount, isWhole(rig.transfers)]).toEqual([rig.source.openCount, true]);
      expect(rig.bucket.openUploads()).toEqual([]);
    }
  });

  test('before: nothing is opened or sent; with an error of ours as the reason: that error', async () => {
    const rig = setUpAll();
    const reason = new CheckpointError('Fenced', 'superseded');
    await expect(rig.transfers.upload(rig.items, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect([rig.store.calls, rig.source.openCount]).toEqual([[], 0]);
  });

  test('while a producer is silent, and while another stream waits for its seat', async () => {
    const { bucket, transfers } = setUp({ settings: { partSizeBytesMin: 8 * MIB } });
    expect(transfers.streamCountMax).toBe(1);
    let pulled = 0;
    async function* silent() {
      pulled += 1;
      yield new Uint8Array(1);
      await new Promise(() => undefined);
    }
    const stops = [new AbortController(), new AbortController()];
    const uploads = stops.map(({ signal }, index) =>
      failureOf(transfers.upload([streamItem(`s${index}`, silent())], { signal })),
    );
    await new Promise((resolve) => setImmediate(resolve));
    expect(pulled).toBe(1);
    for (const index of [1, 0]) {
      stops[index]?.abort();
      expect((await uploads[index])?.code).toBe('Aborted');
    }
    expect([pulled, bucket.openUploads(), isWhole(transfers)]).toEqual([1, [], true]);
    // The seats are free again.
    await transfers.upload([streamItem('next', chunksOf(bytesOf(10), 3))]);
  });

  test('while memory is awaited', async () => {
    const { transfers } = setUp({
      settings: { partSizeBytesMin: 8 * MIB, concurrency: 1 },
      plan: ({ key }) => (key.startsWith('data/stuck') ? FAULTS.stall : undefined),
    });
    const [stuck, stop] = [new AbortController(), new AbortController()];
    const holding = [0, 1].map((index) =>
      failureOf(transfers.upload([bytesItem(`stuck${index}`, bytesOf(8 * MIB))], { signal: stuck.signal })),
    );
    const waiting = failureOf(
      transfers.upload([bytesItem('waits', bytesOf(8 * MIB))], { signal: stop.signal }),
    );
    stop.abort();
    expect((await waiting).code).toBe('Aborted');
    stuck.abort();
    for (const held of holding) expect((await held).code).toBe('Aborted');
    expect(isWhole(transfers)).toBe(true);
  });
});

describe('a call that never ends', () => {
  test('the upload ends, its buffer stays out of use until the call ends, and then comes back', async () => {
    const rig = setUpAll({ settings: { stallTimeoutMs: 1000 } });
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const begin = rig.store.beginUpload.bind(rig.store);
    let touched: Uint8Array | undefined;
    rig.store.beginUpload = async (key, options) => {
      const upload = await begin(key, options);
      const putPart = upload.putPart.bind(upload);
      upload.putPart = async (index, bytes, partOptions) => {
        if (index !== 1) return putPart(index, bytes, partOptions);
        touched = bytes;
        await ended;
        return { index, sizeBytes: bytes.byteLength, etag: '' };
      };
      return upload;
    };
    const error = await failureOf(rig.transfers.upload(rig.items.slice(0, 1)));
    expect(error).toMatchObject({ code: 'Unavailable', status: 'exhausted' });
    expect(error.message).toContain('the call did not end within 1 s of being stopped');
    const { freeBytes, totalBytes } = rig.transfers.memory;
    expect(totalBytes - freeBytes).toBe(PART);
    // Buffers of other uploads in the meantime are in other memory.
    const before = Uint8Array.from(touched as Uint8Array);
    await rig.transfers.upload([bytesItem('other', bytesOf(5000, 9))]);
    expect(touched).toEqual(before);
    end();
    await new Promise((resolve) => setImmediate(resolve));
    expect(isWhole(rig.transfers)).toBe(true);
  });

  test('begun too late: the upload that comes of it is aborted', async () => {
    const rig = setUpAll({ settings: { stallTimeoutMs: 1000 } });
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    const begin = rig.store.beginUpload.bind(rig.store);
    rig.store.beginUpload = async (key, options) => {
      await answered;
      return begin(key, { ...options, signal: undefined });
    };
    expect((await failureOf(rig.transfers.upload(rig.items.slice(0, 1)))).status).toBe('exhausted');
    answer();
    await new Promise((resolve) => setImmediate(resolve));
    expect(rig.store.calls.map(({ operation }) => operation)).toEqual(['beginUpload', 'abort']);
    expect(rig.bucket.openUploads()).toEqual([]);
  });

  test('a source that hangs: the signal ends the call, and its buffer stays out of use', async () => {
    const rig = setUpAll({ settings: { stallTimeoutMs: 1000 } });
    const stop = new AbortController();
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    rig.source.readInto = () => ended;
    const uploading = rig.transfers.upload(rig.items.slice(0, 1), { signal: stop.signal });
    await new Promise((resolve) => setImmediate(resolve));
    stop.abort();
    expect((await failureOf(uploading)).code).toBe('Aborted');
    expect([isWhole(rig.transfers), rig.bucket.openUploads(), rig.source.closeCount]).toEqual([false, [], 1]);
    end();
    await new Promise((resolve) => setImmediate(resolve));
    expect(isWhole(rig.transfers)).toBe(true);
  });
});
