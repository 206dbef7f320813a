import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CheckpointError,
  type NamedStagingSource,
  type RandomSource,
  type StagedCopy,
  type Staging,
} from '@holdfast/core/contract';
import { localFiles, nodeFileSystem } from '@holdfast/local-files';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DirectoryStaging, type DirectoryStagingOptions } from './directory-staging.ts';
import { MemoryStaging } from './memory-staging.ts';

const MIB = 1024 * 1024;

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-staging-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const inDirectory = (options: Partial<DirectoryStagingOptions> = {}) =>
  new DirectoryStaging({ directory, ...options });

function patterned(sizeBytes: number, seed = 1): Uint8Array {
  return Buffer.alloc(
    sizeBytes,
    Uint8Array.from({ length: 9973 }, (_, at) => (at * 31 + seed * 17) ^ (at >> 8)),
  );
}

async function* streamOf(...chunks: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

function opened(bytes: Uint8Array, fields: Partial<RandomSource> = {}): NamedStagingSource['source'] {
  const source: RandomSource = {
    sizeBytes: bytes.byteLength,
    readInto: async (offsetBytes, buffer) =>
      buffer.set(bytes.subarray(offsetBytes, offsetBytes + buffer.byteLength)),
    assertUnchanged: async () => undefined,
    close: async () => undefined,
    ...fields,
  };
  return { open: async () => source };
}

const named = (...sources: NamedStagingSource['source'][]): NamedStagingSource[] =>
  sources.map((source, index) => ({ name: `file-${index}`, source }));

async function read(copy: StagedCopy | undefined, from = 0, to = copy?.sizeBytes ?? 0): Promise<Buffer> {
  const source = await (copy as StagedCopy).open();
  const buffer = Buffer.alloc(to - from);
  await source.readInto(from, buffer);
  await source.assertUnchanged();
  await source.close();
  return buffer;
}

async function failure(promise: Promise<unknown>): Promise<string> {
  const error: unknown = await promise.then(
    () => 'it did not fail',
    (reason: unknown) => reason,
  );
  return error instanceof CheckpointError ? `${error.code}: ${error.message}` : String(error);
}

const STAGINGS: [string, (bytesMax?: number) => Staging][] = [
  ['memory', (bytesMax) => new MemoryStaging({ bytesMax })],
  ['directory', (bytesMax) => inDirectory({ bytesMax })],
];

describe.each(STAGINGS)('staging in %s', (_, create) => {
  test('the copies are those of the moment, in the order of the sources, and may be read again and again', async () => {
    const bytes = patterned(3 * MIB);
    const chunks = [patterned(5, 2), patterned(0), patterned(70_000, 3)];
    const file = join(directory, 'file');
    writeFileSync(file, patterned(100_000, 4), { mode: 0o640 });
    const { mtimeMs } = statSync(file);
    const sources = named(
      { bytes },
      { stream: streamOf(...chunks) },
      { open: () => localFiles.openSource(file) },
      { bytes: new Uint8Array(0) },
    );
    const stage = await create().stage(sources);
    const expected = [Buffer.from(bytes), Buffer.concat(chunks), patterned(100_000, 4), Buffer.alloc(0)];
    bytes.fill(0);
    writeFileSync(file, 'other');
    expect(stage.copies.map(({ sizeBytes }) => sizeBytes)).toEqual([3 * MIB, 70_005, 100_000, 0]);
    for (const time of [0, 1])
      for (const [index, copy] of stage.copies.entries())
        expect((await read(copy)).equals(expected[index] as Buffer), `${time}, ${index}`).toBe(true);
    expect(await read(stage.copies[1], 3, 10)).toEqual(expected[1]?.subarray(3, 10));
    expect((await stage.copies[2]?.open())?.mode).toBe(0o640);
    expect((await stage.copies[2]?.open())?.mtimeMs).toBe(Math.floor(mtimeMs));
    expect((await stage.copies[0]?.open())?.mtimeMs).toBeUndefined();
    expect((await stage.copies[0]?.open())?.mode).toBeUndefined();
    await stage.release();
  });

  test('a released stage gives nothing more, and makes room for the next; before, there is one at a time', async () => {
    const staging = create();
    const first = await staging.stage(named({ bytes: patterned(10) }));
    const source = await first.copies[0]?.open();
    expect(await failure(staging.stage(named({ bytes: patterned(10) })))).toContain(
      'InvalidArgument: the staging still holds',
    );
    await first.release();
    await first.release();
    const second = await staging.stage(named({ bytes: patterned(10, 2) }));
    await first.release();
    expect(await failure(staging.stage([]))).toContain('still holds');
    expect(await failure((first.copies[0] as StagedCopy).open())).toContain('was released');
    expect(await failure((source as RandomSource).readInto(0, Buffer.alloc(1)))).toContain('was released');
    expect(await read(second.copies[0])).toEqual(patterned(10, 2));
  });

  test('StorageFull names what is needed, of all sources, and what is allowed; a smaller save fits', async () => {
    const staging = create(1000);
    const files = named({ bytes: patterned(600) }, opened(patterned(401)), { bytes: patterned(99) });
    expect(await failure(staging.stage(files))).toBe(
      'StorageFull: staging needs 1100 bytes and may take 1000 (bytesMax); nothing was copied',
    );
    const streams = named({ bytes: patterned(600) }, { stream: streamOf(patterned(400), patterned(7)) });
    expect(await failure(staging.stage([...streams, ...named({ bytes: patterned(3) })]))).toContain(
      'needs at least 1010 bytes and may take 1000',
    );
    expect(await failure(staging.stage(named({ bytes: patterned(1001) })))).toContain('needs 1001 bytes');
    const stage = await staging.stage(named({ bytes: patterned(600) }, { stream: streamOf(patterned(400)) }));
    expect(await read(stage.copies[1])).toEqual(patterned(400));
  });

  test('errors of sources are passed on as they are, sources are closed, and nothing is held', async () => {
    const staging = create();
    const wrong = new CheckpointError('SourceChanged', 'it was written to');
    let closedCount = 0;
    const close = async () => {
      closedCount += 1;
      throw new Error('cannot be closed');
    };
    const throwing = async () => {
      throw wrong;
    };
    async function* broken() {
      yield patterned(5);
      throw wrong;
    }
    const bad: NamedStagingSource['source'][] = [
      { open: throwing },
      opened(patterned(5), { readInto: throwing, close }),
      opened(patterned(5), { assertUnchanged: throwing, close }),
      { stream: broken() },
    ];
    for (const source of bad)
      await expect(staging.stage(named({ bytes: patterned(5) }, source))).rejects.toBe(wrong);
    const text = { stream: streamOf('text' as unknown as Uint8Array) };
    expect(await failure(staging.stage(named(text)))).toBe(
      'InvalidArgument: the stream of "file-0" gave a chunk of type string; it takes Uint8Array',
    );
    const stage = await staging.stage(named(opened(patterned(5), { close })));
    expect([await read(stage.copies[0]), closedCount]).toEqual([patterned(5), 3]);
  });

  test('a source whose changes show in its bytes alone is read twice, and changed in between it is SourceChanged', async () => {
    const bytes = patterned(3 * MIB);
    const wanted = Buffer.from(bytes);
    let reads = 0;
    const source = opened(bytes, {
      mayHideChanges: true,
      readInto: async (offsetBytes, buffer) => {
        reads += 1;
        buffer.set(bytes.subarray(offsetBytes, offsetBytes + buffer.byteLength));
      },
    });
    const stage = await create().stage(named(source));
    expect(Buffer.compare(await read(stage.copies[0]), wanted)).toBe(0);
    expect(reads).toBeGreaterThan(3);
    await stage.release();
    const changing = opened(bytes, {
      mayHideChanges: true,
      readInto: async (offsetBytes, buffer) => {
        buffer.set(bytes.subarray(offsetBytes, offsetBytes + buffer.byteLength));
        bytes[0] = (bytes[0] ?? 0) + 1;
      },
    });
    await expect(create().stage(named(changing))).rejects.toMatchObject({
      code: 'SourceChanged',
      context: { name: 'file-0' },
    });
  });

  test('the signal ends it: beforehand, within a large source, and at a stream that waits for bytes for ever', async () => {
    const staging = create();
    const reason = new CheckpointError('TimedOut', 'enough');
    await expect(staging.stage([], { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);

    const within = new AbortController();
    let readCount = 0;
    const large = opened(new Uint8Array(0), {
      sizeBytes: 100 * MIB,
      readInto: async () => {
        readCount += 1;
        within.abort(reason);
      },
    });
    await expect(staging.stage(named(large), { signal: within.signal })).rejects.toBe(reason);
    expect(readCount).toBe(1);

    const waiting = new AbortController();
    let returned = false;
    const stream: AsyncIterable<Uint8Array> = {
      [Symbol.asyncIterator]: () => ({
        next: () => {
          setImmediate(() => waiting.abort(reason));
          return new Promise(() => undefined);
        },
        return: async () => {
          returned = true;
          throw new Error('has not ended well');
        },
      }),
    };
    await expect(staging.stage(named({ stream }), { signal: waiting.signal })).rejects.toBe(reason);
    expect(returned).toBe(true);
    await (await staging.stage(named({ bytes: patterned(1) }))).release();
  });

  test('any sources, again and again in the same room: each copy is its source', async () => {
    const staging = create(40 * MIB);
    const kind = fc.constantFrom('bytes', 'open', 'stream');
    const sizes = fc.oneof(fc.nat(10), fc.nat(100_000), fc.constantFrom(8 * MIB, 8 * MIB + 1, 10 * MIB));
    const save = fc.array(fc.tuple(kind, sizes), { maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(save, async (files) => {
        const contents = files.map(([, size], index) => patterned(size, size + index));
        const stage = await staging.stage(
          named(
            ...files.map(([of], index) => {
              const bytes = contents[index] as Uint8Array;
              if (of === 'bytes') return { bytes };
              return of === 'open'
                ? opened(bytes)
                : { stream: streamOf(bytes.subarray(0, 7), bytes.subarray(7)) };
            }),
          ),
        );
        for (const [index, bytes] of contents.entries())
          expect((await read(stage.copies[index])).equals(bytes)).toBe(true);
        await stage.release();
      }),
      { numRuns: 15 },
    );
  });

  test('bytesMax is a whole number from 1', () => {
    for (const bytesMax of [0, 1.5, Number.NaN])
      expect(() => create(bytesMax)).toThrow(`bytesMax is ${bytesMax}; it takes a whole number`);
  });
});

describe('memory', () => {
  test('is taken once and kept, up to bytesMax and no further', async () => {
    const staging = new MemoryStaging({ bytesMax: 40 * MIB });
    expect([staging.keptBytes, new MemoryStaging().bytesMax]).toEqual([0, 1024 * MIB]);
    for (const size of [40 * MIB, 5, 40 * MIB]) {
      const stage = await staging.stage(named({ bytes: new Uint8Array(size) }));
      await stage.release();
      expect(staging.keptBytes).toBe(40 * MIB);
    }
  });

  test('memory that the machine does not have is StorageFull', async () => {
    const staging = new MemoryStaging();
    const sources = named({ bytes: patterned(10) });
    vi.stubGlobal('Uint8Array', function exhausted() {
      throw new RangeError('Array buffer allocation failed');
    });
    try {
      expect(await failure(staging.stage(sources))).toBe(
        'StorageFull: there is not enough memory for 33554432 more bytes of staging',
      );
    } finally {
      vi.unstubAllGlobals();
    }
    await (await staging.stage(sources)).release();
  });

  test('the event loop has its turn while a large source is copied', async () => {
    let turns = 0;
    const count = setInterval(() => {
      turns += 1;
    }, 0);
    const bytes = patterned(80 * MIB);
    const stage = await new MemoryStaging().stage(named({ bytes }, { bytes: bytes.subarray(7, 20 * MIB) }));
    clearInterval(count);
    // After 32, 64 and 96 MiB.
    expect(turns).toBeGreaterThanOrEqual(2);
    expect((await read(stage.copies[0])).equals(bytes)).toBe(true);
    // Crosses from one slab into the next.
    expect((await read(stage.copies[1])).equals(bytes.subarray(7, 20 * MIB))).toBe(true);
    await stage.release();
  });
});

describe('directory', () => {
  test('no name is left behind: not while it is held, nor after, nor by an error', async () => {
    const staging = inDirectory();
    const stage = await staging.stage(named({ bytes: patterned(10) }));
    expect(readdirSync(directory)).toEqual([]);
    await stage.release();
    await expect(staging.stage(named({ open: () => Promise.reject(new Error('no')) }))).rejects.toThrow('no');
    expect(readdirSync(directory)).toEqual([]);
  });

  test('names that killed processes left are removed when the next one begins; files of others stay', async () => {
    for (const name of ['.holdfast-staging-0123', '.holdfast-other', 'data'])
      writeFileSync(join(directory, name), '');
    const first = await inDirectory().stage(named({ bytes: patterned(10) }));
    const second = await inDirectory().stage(named({ bytes: patterned(10, 2) }));
    expect(readdirSync(directory).sort()).toEqual(['.holdfast-other', 'data']);
    expect([await read(first.copies[0]), await read(second.copies[0])]).toEqual([
      patterned(10),
      patterned(10, 2),
    ]);
    await Promise.all([first.release(), second.release()]);
  });

  test('two that begin at once do not take the name from each other too early', async () => {
    const stages = await Promise.all(
      Array.from({ length: 20 }, (_, seed) => inDirectory().stage(named({ bytes: patterned(100, seed) }))),
    );
    for (const [seed, stage] of stages.entries())
      expect(await read(stage.copies[0])).toEqual(patterned(100, seed));
    await Promise.all(stages.map((stage) => stage.release()));
    expect(readdirSync(directory)).toEqual([]);
  });

  test('a directory that is not there is NotFound, and is not made', async () => {
    const missing = join(directory, 'missing');
    expect(await failure(new DirectoryStaging({ directory: missing }).stage([]))).toContain(
      `NotFound: cannot copy to ${missing}: no such file or directory`,
    );
    expect(readdirSync(directory)).toEqual([]);
  });

  test('a full disk is StorageFull, and the file is closed', async () => {
    let closedCount = 0;
    const full = Object.assign(new Error('ENOSPC'), { code: 'ENOSPC', syscall: 'write' });
    const fileSystem = {
      ...nodeFileSystem,
      write: () => Promise.reject(full),
      close: (descriptor: number) => {
        closedCount += 1;
        return nodeFileSystem.close(descriptor);
      },
    };
    const staging = inDirectory({ fileSystem });
    for (const _ of [0, 1])
      expect(await failure(staging.stage(named({ bytes: patterned(10) })))).toBe(
        `StorageFull: cannot copy to ${directory}: no space left on the device (ENOSPC)`,
      );
    expect(closedCount).toBe(2);
  });

  test('a name that cannot be removed is an error: a killed process would leave its copies', async () => {
    const busy = Object.assign(new Error('EBUSY'), { code: 'EBUSY', syscall: 'unlink' });
    const fileSystem = { ...nodeFileSystem, unlink: () => Promise.reject(busy) };
    expect(await failure(inDirectory({ fileSystem }).stage([]))).toContain('Unavailable: cannot copy to');
  });

  test('a copy that cannot be read is an error that names the directory', async () => {
    const broken = Object.assign(new Error('EIO'), { code: 'EIO', syscall: 'read' });
    const fileSystem = { ...nodeFileSystem, read: () => Promise.reject(broken) };
    const stage = await inDirectory({ fileSystem }).stage(named({ bytes: patterned(10) }));
    expect(await failure(read(stage.copies[0]))).toContain(`Unavailable: cannot read a copy in ${directory}`);
  });
});
