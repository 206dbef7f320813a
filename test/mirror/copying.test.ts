/** Mirrors between stores with server-side copies. */

import type { ObjectStore } from '@holdfast/core/contract';
import { CheckpointError } from '@holdfast/core/contract';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { checkInvariants, viewOfBucket } from '../crash/invariants.ts';
import { failure } from '../manager/memory-run.ts';
import { contentOf, open, saveAll, type TwoRuns, twoRuns } from './two-runs.ts';

type CopyFrom = NonNullable<ObjectStore['copyFrom']>;

/**
 * The destination store, whose copies `copy` makes, with counts of copies and of objects sent or
 * read without a copy.
 */
function copying(
  bucket: MemoryBucket,
  copy?: (real: CopyFrom, ...args: Parameters<CopyFrom>) => ReturnType<CopyFrom>,
) {
  const seen = { copies: 0, sent: 0, read: 0 };
  const isPayload = (key: string) => /\/\d+\.\d+-/.test(key);
  const store = new (class extends MemoryStore {
    override create(...args: Parameters<MemoryStore['create']>) {
      if (isPayload(args[0])) seen.sent += 1;
      return super.create(...args);
    }
    override beginUpload(...args: Parameters<MemoryStore['beginUpload']>) {
      seen.sent += 1;
      return super.beginUpload(...args);
    }
    override readInto(...args: Parameters<MemoryStore['readInto']>) {
      seen.read += 1;
      return super.readInto(...args);
    }
  })(bucket, { copiesObjects: true });
  const real = store.copyFrom as CopyFrom;
  const copyFrom: CopyFrom = (...args) => {
    seen.copies += 1;
    return copy ? copy(real, ...args) : real(...args);
  };
  return { store: Object.assign(store, { copyFrom }), seen };
}

async function savedRuns(): Promise<TwoRuns> {
  const runs = twoRuns();
  await saveAll(runs.from, [1n], { count: 2 });
  return runs;
}

async function expectMirrored(runs: TwoRuns, store: ObjectStore): Promise<void> {
  await using from = open(runs.from);
  await using to = open(store);
  let doneBytes = 0;
  await to.admin.mirrorFrom(from, {
    onProgress: (event) => {
      if (event.type === 'bytes' && event.doneBytes === event.totalBytes) doneBytes += event.doneBytes;
    },
  });
  expect(doneBytes).toBe(140_010);
  await using reader = open(runs.to);
  expect(await contentOf(reader)).toEqual(await contentOf(from));
  await checkInvariants(viewOfBucket(runs.to), []);
}

describe('a store that copies', () => {
  test('is sent no payload, and its checksum is compared', async () => {
    const runs = await savedRuns();
    const { store, seen } = copying(runs.to);
    await expectMirrored(runs, store);
    expect(seen).toEqual({ copies: 4, sent: 0, read: 0 });
  });

  test('and keeps no checksum has its copies read back', async () => {
    const runs = await savedRuns();
    const { store, seen } = copying(runs.to, async (real, ...args) => {
      const copied = await real(...args);
      return copied && { ...copied, crc32c: undefined };
    });
    await expectMirrored(runs, store);
    expect(seen).toEqual({ copies: 4, sent: 0, read: 6 });
  });

  test('but not from that source is asked once at a time, and then sent the bytes', async () => {
    const runs = await savedRuns();
    const { store, seen } = copying(runs.to, async () => null);
    await expectMirrored(runs, store);
    expect(seen.sent).toBe(4);
  });

  test.each(['Denied', 'NotFound', 'Unsupported', 'InvalidArgument', 'AlreadyExists'] as const)(
    'and answers %s is sent the bytes',
    async (code) => {
      const runs = await savedRuns();
      const { store, seen } = copying(runs.to, async () => {
        throw new CheckpointError(code, 'not this one');
      });
      await expectMirrored(runs, store);
      expect(seen.sent).toBe(4);
    },
  );

  test('and does not answer for a while is asked again, under another key', async () => {
    const runs = await savedRuns();
    const keys = new Set<string>();
    let failures = 3;
    const { store, seen } = copying(runs.to, async (real, ...args) => {
      expect(keys.has(args[2])).toBe(false);
      keys.add(args[2]);
      const copied = await real(...args);
      if (failures-- > 0) throw new CheckpointError('Unavailable', 'the reply was lost');
      return copied;
    });
    await expectMirrored(runs, store);
    expect(seen).toMatchObject({ copies: 7, sent: 0 });
  });

  test('and is full ends the mirror', async () => {
    const runs = await savedRuns();
    const { store } = copying(runs.to, async () => {
      throw new CheckpointError('StorageFull', 'no room');
    });
    await using from = open(runs.from);
    await using to = open(store);
    expect(await failure(to.admin.mirrorFrom(from))).toBe('StorageFull: no room');
  });
});

describe('a copy that is not like its original', () => {
  const wrong: Record<string, (real: CopyFrom, ...args: Parameters<CopyFrom>) => ReturnType<CopyFrom>> = {
    'in its checksum': async (real, ...args) => {
      const copied = await real(...args);
      return copied && { ...copied, crc32c: 1 };
    },
    'in its size': async (real, ...args) => {
      const copied = await real(...args);
      return copied && { ...copied, sizeBytes: copied.sizeBytes + 1 };
    },
  };

  test.each(Object.entries(wrong))('%s is not used: the bytes are sent', async (_, copy) => {
    const runs = await savedRuns();
    const { store, seen } = copying(runs.to, copy);
    await expectMirrored(runs, store);
    expect(seen.sent).toBe(4);
  });

  test('in what is read back is not used either', async () => {
    const runs = await savedRuns();
    const { store, seen } = copying(runs.to, async (real, ...args) => {
      const copied = await real(...args);
      runs.to.damage(args[2], (bytes) => bytes.fill(0, 1, 2));
      return copied && { ...copied, crc32c: undefined };
    });
    await expectMirrored(runs, store);
    expect(seen.sent).toBe(4);
  });

  test('is left by an interrupted mirror, and the next one does not take it for a good one', async () => {
    const runs = await savedRuns();
    const never = new Promise<null>(() => undefined);
    let underWay = 0;
    let allAreUnderWay: () => void = () => undefined;
    const made = new Promise<void>((resolve) => {
      allAreUnderWay = resolve;
    });
    const { store } = copying(runs.to, async (real, ...args) => {
      await real(...args);
      runs.to.damage(args[2], (bytes) => bytes.fill(0, 1, 2));
      underWay += 1;
      if (underWay === 4) allAreUnderWay();
      return never;
    });
    void open(store).admin.mirrorFrom(open(runs.from));
    await made;
    const next = copying(runs.to);
    await expectMirrored(runs, next.store);
    expect(next.seen.copies).toBe(4);
  });

  test('because the original is damaged: the error names the source, file and range', async () => {
    const runs = await savedRuns();
    const key = runs.from.keys().find((each) => each.includes('two-parts')) as string;
    runs.from.damage(key, (bytes) => bytes.fill(0, 1, 2));
    const { store } = copying(runs.to);
    await using from = open(runs.from);
    await using to = open(store);
    const said = await failure(to.admin.mirrorFrom(from));
    expect(said).toContain('Corrupt: version 1 of memory://from is damaged: w0/two-parts.bin bytes 0–65,535');
    expect(await to.list()).toEqual([]);
  });
});
