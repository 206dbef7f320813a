import { CheckpointError, isCheckpointError, type ProgressEvent, systemClock } from '@holdfast/core';
import { type MemoryBucket, MemoryStore, ObservedStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open, readAll, SETTINGS } from './memory-run.ts';

describe('save and restore', () => {
  test('what was saved comes back, byte for byte, from another manager', async () => {
    const bucket = newBucket();
    const model = bytes(300_000);
    await using writer = open(bucket);
    const saved = await writer.save({
      version: 7,
      buffers: { 'model.bin': model, 'sub/empty': new Uint8Array(0) },
      metrics: { loss: 0.5 },
      metadata: { note: 'first' },
    });
    expect(saved).toMatchObject({ version: 7n, isCommitted: true, fileCount: 2, sizeBytes: 300_000 });

    await using reader = open(bucket);
    const to = { 'model.bin': new Uint8Array(300_000), 'sub/empty': new Uint8Array(0) };
    const restored = await reader.restore({ to });
    expect(restored).toMatchObject({ version: 7n, fileCount: 2, skipped: [] });
    expect(Buffer.compare(to['model.bin'], model)).toBe(0);
    const details = await (await reader.latest())?.details();
    expect(details).toMatchObject({ worldSize: 1, metrics: { loss: 0.5 }, metadata: { note: 'first' } });
  });

  test('records hold the members that the format names, and no other', async () => {
    const bucket = newBucket();
    await using manager = open(bucket, { attempt: 'job-0' });
    await manager.save({ version: 1, buffers: { a: bytes(10) } });
    const receipt = bucket.find('version_1/1.1/receipts/0.0.json')?.bytes ?? bytes(0);
    expect(Object.keys(JSON.parse(new TextDecoder().decode(receipt)))).toEqual(
      ['checksum', 'format', 'files', 'id', 'worldSize'], // other fields have their defaults
    );
  });

  test('sources of every kind: bytes, an async iterable, a web stream', async () => {
    const bucket = newBucket();
    await using manager = open(bucket);
    const data = bytes(200_001);
    async function* pieces() {
      for (let at = 0; at < data.length; at += 999) yield data.subarray(at, at + 999);
    }
    const web = new Blob([data as Uint8Array<ArrayBuffer>]).stream();
    await manager.save({ version: 1, files: { a: data, b: pieces(), c: web } });
    const checkpoint = await manager.latest();
    for (const name of ['a', 'b', 'c']) {
      expect(Buffer.compare(await readAll(checkpoint?.openInputStream(name) as ReadableStream), data)).toBe(
        0,
      );
    }
  });

  test('one stream for two files is refused: each would get a part of its chunks', async () => {
    await using manager = open(newBucket());
    const web = new Blob([bytes(10) as Uint8Array<ArrayBuffer>]).stream();
    await expect(manager.save({ version: 1, files: { a: web, b: 'x', c: web } })).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: '"a" and "c" have the same stream; give each its own',
    });
  });

  test('without a version a lone writer counts on from the highest', async () => {
    await using manager = open(newBucket());
    expect((await manager.save({ buffers: { a: bytes(1) } })).version).toBe(0n);
    expect((await manager.save({ version: 41, buffers: { a: bytes(2) } })).version).toBe(41n);
    expect((await manager.save({ buffers: { a: bytes(3) } })).version).toBe(42n);
  });

  test('above the highest version there can be nothing is saved, and the run is not taken over', async () => {
    const bucket = newBucket();
    const highest = 2n ** 63n - 1n;
    await using first = open(bucket);
    await first.save({ version: highest, buffers: { a: bytes(1) } });
    const keys = () => bucket.keys().toSorted();
    const before = keys();
    await using second = open(bucket);
    const refused = `Conflict: no version is left: ${highest}, the highest possible version, is already committed or begun`;
    expect(await failure(second.save({ buffers: { a: bytes(1) } }))).toBe(refused);
    expect(keys()).toEqual(before);
    // The owner of the run has already joined, and gets the same error.
    expect(await failure(first.save({ buffers: { a: bytes(1) } }))).toBe(refused);
    expect(keys()).toEqual(before);
  });

  test('versions are int64: above 2^53 only as a bigint, never rounded', async () => {
    await using manager = open(newBucket());
    const huge = 2n ** 63n - 1n;
    await manager.save({ version: huge, buffers: { a: bytes(1) } });
    expect((await manager.latest())?.version).toBe(huge);
    expect(await failure(manager.save({ version: 2 ** 53, buffers: { a: bytes(1) } }))).toContain(
      'InvalidArgument',
    );
  });

  test('only what a glob matches is restored; no match names what there is', async () => {
    await using manager = open(newBucket());
    await manager.save({ version: 1, buffers: { 'a/x.bin': bytes(10), 'a/y.txt': bytes(11) } });
    const seen: string[] = [];
    const to = {
      open: async ({ name }: { name: string }) => {
        seen.push(name);
        return { writeAt: async () => undefined, close: async () => undefined };
      },
      publish: async () => undefined,
      discard: async () => undefined,
    };
    await manager.restore({ to, only: ['**/*.bin'] });
    expect(seen).toEqual(['a/x.bin']);
    expect(await failure(manager.restore({ to, only: ['*.pt'] }))).toContain('there are: a/x.bin, a/y.txt');
  });

  test('progress tells what is planned, every byte, the delivery and the commit', async () => {
    await using manager = open(newBucket());
    const events: ProgressEvent[] = [];
    await manager.save({
      version: 1,
      buffers: { a: bytes(150_000) },
      onProgress: (event) => events.push(event),
    });
    const types = events.map((event) => event.type);
    expect(types[0]).toBe('joined');
    expect(types[1]).toBe('planned');
    expect(types.at(-1)).toBe('committed');
    expect(events.findLast((event) => event.type === 'bytes')).toMatchObject({
      doneBytes: 150_000,
      totalBytes: 150_000,
    });
  });
});

describe('checkpoints with streams', () => {
  test('a checkpoint is visible only after commit, and commit twice is the same as once', async () => {
    await using manager = open(newBucket());
    const checkpoint = await manager.create(3);
    const stream = checkpoint.openOutputStream('w').getWriter();
    await stream.write(bytes(100_000));
    await stream.close();
    expect(await manager.latest()).toBeNull();
    await checkpoint.commit({ metrics: { loss: 1 } });
    await checkpoint.commit();
    expect((await manager.latest())?.summary).toMatchObject({
      version: 3n,
      metrics: { loss: 1 },
      fileCount: 1,
    });
    expect(await manager.list()).toHaveLength(1);
  });

  test('the same name written twice: the last one that is closed counts', async () => {
    await using manager = open(newBucket());
    const checkpoint = await manager.create(1);
    for (const seed of [1, 2]) {
      const stream = checkpoint.openOutputStream('w').getWriter();
      await stream.write(bytes(5000, seed));
      await stream.close();
    }
    await checkpoint.commit();
    const read = await readAll((await manager.get(1))?.openInputStream('w') as ReadableStream);
    expect(Buffer.compare(read, bytes(5000, 2))).toBe(0);
  });

  test('a discarded checkpoint is never seen and cannot be committed', async () => {
    await using manager = open(newBucket());
    {
      await using checkpoint = await manager.create(1);
      const stream = checkpoint.openOutputStream('w').getWriter();
      await stream.write(bytes(10));
      await stream.close();
      await checkpoint.discard();
      expect(await failure(checkpoint.commit())).toContain('was discarded');
    }
    expect([await manager.latest(), await manager.list()]).toEqual([null, []]);
    await manager.save({ version: 1, buffers: { a: bytes(1) } });
  });

  test('a stream that is still open at commit is an error, and so is a checkpoint without files', async () => {
    await using manager = open(newBucket());
    const checkpoint = await manager.create(1);
    expect(await failure(checkpoint.commit())).toContain('no file to commit');
    const stream = checkpoint.openOutputStream('w').getWriter();
    expect(await failure(checkpoint.commit())).toContain('still open: w');
    await stream.abort(new Error('enough'));
    await checkpoint.discard();
  });

  test('ids are the highest plus one, listed newest first, and an unknown one is null', async () => {
    await using manager = open(newBucket());
    for (const version of [9, 10, 100]) await manager.save({ version, buffers: { a: bytes(1) } });
    expect((await manager.list()).map((each) => each.version)).toEqual([100n, 10n, 9n]);
    expect(await manager.get(11)).toBeNull();
    expect((await manager.create()).version).toBe(101n);
  });

  test('a committed checkpoint has no output, an unknown file is NotFound', async () => {
    await using manager = open(newBucket());
    await manager.save({ version: 1, buffers: { a: bytes(1) } });
    const checkpoint = await manager.get(1);
    expect(() => checkpoint?.openOutputStream('b')).toThrow('can no longer be written');
    expect(await failure(readAll(checkpoint?.openInputStream('b') as ReadableStream))).toContain('NotFound');
  });
});

describe('several writers', () => {
  const job = (bucket: MemoryBucket, index: number, count: number, attempt = 'job-0') =>
    open(bucket, { attempt, writer: { index, count } });

  test('four writers make one checkpoint, and every save resolves with it', async () => {
    const bucket = newBucket();
    const managers = [0, 1, 2, 3].map((index) => job(bucket, index, 4));
    const results = await Promise.all(
      managers.map((manager, index) =>
        manager.save({ version: 5, buffers: { [`w-${index}`]: bytes(70_000, index) } }),
      ),
    );
    expect(results.every((result) => result.isCommitted)).toBe(true);
    const details = await (await managers[0]?.latest())?.details();
    expect(details?.files.map((file) => [file.name, file.writer])).toEqual([
      ['w-0', 0],
      ['w-1', 1],
      ['w-2', 2],
      ['w-3', 3],
    ]);
    await Promise.all(managers.map((manager) => manager.close()));
    expect(bucket.violations).toEqual([]);
  });

  test('writers that wait leave the commit to the last to deliver: only one reads the receipts', async () => {
    const bucket = newBucket();
    const count = 12;
    let receiptsRead = 0;
    // A slow clock measures their deadlines, so that a slow machine does not exceed them.
    const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() / 100 };
    const managers = Array.from({ length: count }, (_, index) => {
      const store = new ObservedStore(new MemoryStore(bucket), {
        clock: systemClock,
        onCall: ({ operation, key }) => {
          if (operation === 'get' && key.includes('/receipts/')) receiptsRead++;
        },
      });
      return open(bucket, { store, clock, attempt: 'job-0', writer: { index, count } });
    });
    const saving = managers
      .slice(1)
      .map((manager, index) => manager.save({ version: 1, buffers: { [`w${index}`]: bytes(9) } }));
    await expect.poll(() => bucket.keys().filter((key) => key.includes('/receipts/')).length).toBe(count - 1);
    await managers[0]?.save({ version: 1, buffers: { last: bytes(9) } });
    await Promise.all(saving);
    expect(receiptsRead).toBe(count - 1);
    await Promise.all(managers.map((manager) => manager.close()));
  });

  test('many missing writers: the message names the first, and its context all', async () => {
    await using first = job(newBucket(), 0, 65_536);
    const saving = first.save({ version: 5, buffers: { a: bytes(1) }, timeoutMs: 0 });
    const error = await saving.catch((thrown: CheckpointError) => thrown);
    if (!isCheckpointError(error, 'Incomplete')) throw new Error('it is complete');
    expect(error.message).toContain('13, 14, 15, 16 and 65519 more have not delivered');
    expect(error.message.length).toBeLessThan(2000);
    expect(error.context['missing']).toHaveLength(65_535);
  });

  test('a missing writer is named, with what is known of it, and nothing is lost: it may deliver later', async () => {
    const bucket = newBucket();
    await using first = job(bucket, 0, 3);
    await using second = job(bucket, 1, 3);
    await using third = job(bucket, 2, 3);
    await second.create(5); // joined, but delivers nothing
    const message = await failure(first.save({ version: 5, buffers: { a: bytes(1) }, timeoutMs: 0 }));
    expect(message).toContain('Incomplete: version 5 is not complete: writers 1, 2 have not delivered');
    expect(message).toMatch(/writer 1 joined the run \d+ s ago and has finished no file of version 5/);
    expect(message).toContain('writer 2 never joined');
    await second.save({ version: 5, buffers: { b: bytes(1) }, noWait: true });
    const last = await third.save({ version: 5, buffers: { c: bytes(1) } });
    expect(last.isCommitted).toBe(true);
    // The first writer saves again: its files are in the checkpoint.
    expect((await first.save({ version: 5, buffers: { a: bytes(1) } })).wasCommittedBefore).toBe(true);
  });

  test('a survivor commits what all writers have delivered, also without naming the version; the token of the lost one tells', async () => {
    const bucket = newBucket();
    await using first = job(bucket, 0, 2);
    const delivered = await first.save({ version: 8, buffers: { a: bytes(9) }, noWait: true });
    expect(delivered).toMatchObject({ isCommitted: false, missingWriters: [1] });
    await using survivor = open(bucket);
    expect(await failure(survivor.commit())).toContain(
      'Incomplete: version 8 is not complete: writer 1 has not',
    );
    expect(await failure(survivor.commit({ version: 9 }))).toContain('writers 0, 1 have not delivered');

    // The second writer delivers. The store then no longer answers its creates of manifests.
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    store.create = (key, data, options) => {
      const isLost = key.includes('/manifest-');
      return isLost
        ? Promise.reject(new CheckpointError('Unavailable', 'no answer'))
        : create(key, data, options);
    };
    const settings = { ...SETTINGS, recordTimeoutMs: 50 };
    await using second = open(bucket, { store, settings, attempt: 'job-0', writer: { index: 1, count: 2 } });
    const lost = await second.save({ version: 8, buffers: { b: bytes(3) } }).catch((error: unknown) => error);
    expect(lost).toMatchObject({ code: 'OutcomeUnknown' });
    const token = (lost as CheckpointError).context.token as string;
    expect(await survivor.recover(token)).toMatchObject({ outcome: 'pending', id: { version: 8n } });

    expect((await survivor.commit()).version).toBe(8n);
    expect((await survivor.commit({ version: 8 })).version).toBe(8n);
    expect(await failure(survivor.commit())).toContain('NotFound');
    expect(await survivor.recover(token)).toMatchObject({ outcome: 'committed' });
    expect(await failure(survivor.recover('nonsense'))).toContain('InvalidArgument: this is not a token');
  });

  test('I7: the token of a save that was overtaken says that it is not committed and never will be', async () => {
    const bucket = newBucket();
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    store.create = (key, data, options) =>
      key.includes('/manifest-')
        ? Promise.reject(new CheckpointError('Unavailable', 'no answer'))
        : create(key, data, options);
    await using lonely = open(bucket, { store, settings: { ...SETTINGS, recordTimeoutMs: 50 } });
    const lost = await lonely.save({ version: 1, buffers: { a: bytes(3) } }).catch((error: unknown) => error);
    const token = (lost as CheckpointError).context.token as string;
    await using next = open(bucket);
    await next.save({ version: 1, buffers: { a: bytes(4) } });
    expect(await next.recover(token)).toMatchObject({ outcome: 'not-committed' });
    await using elsewhere = open(newBucket());
    expect(await failure(elsewhere.recover(token))).toContain('NotFound');
  });

  test('I5: a takeover fences the older attempt: its saves fail, and it never comes back', async () => {
    const bucket = newBucket();
    await using old = job(bucket, 0, 1, 'job-0');
    await old.save({ version: 1, buffers: { a: bytes(1) } });
    await using young = job(bucket, 0, 1, 'job-1');
    await young.save({ version: 2, buffers: { a: bytes(2) } });
    expect(await failure(old.save({ version: 3, buffers: { a: bytes(3) } }))).toContain('Fenced');
    await using again = job(bucket, 0, 1, 'job-0');
    expect(await failure(again.save({ version: 3, buffers: { a: bytes(3) } }))).toContain(
      'attempt "job-0" is no longer current',
    );
    expect((await young.latest())?.version).toBe(2n);
  });

  test('a job that joins before it restores sees a latest that no older attempt can move any more', async () => {
    const bucket = newBucket();
    await using old = job(bucket, 0, 1, 'job-0');
    await old.save({ version: 1, buffers: { a: bytes(1) } });
    await using young = job(bucket, 0, 1, 'job-1');
    expect(await young.join()).toEqual({ epoch: 2, lineage: 1, tookOver: true, runId: expect.any(String) });
    expect(await young.join()).toMatchObject({ epoch: 2 });
    expect(await failure(old.save({ version: 2, buffers: { a: bytes(2) } }))).toContain('Fenced');
    expect((await young.latest())?.version).toBe(1n);
    await young.save({ version: 2, buffers: { a: bytes(3) } });
    expect((await young.admin.log()).map((entry) => entry.kind)).toEqual([
      'commit',
      'takeover',
      'commit',
      'takeover',
    ]);
  });

  test('I6: a restarted writer supersedes its former life within the same attempt', async () => {
    const bucket = newBucket();
    await using former = job(bucket, 0, 2);
    await using peer = job(bucket, 1, 2);
    await former.save({ version: 1, buffers: { a: bytes(1) }, noWait: true });
    await using restarted = job(bucket, 0, 2);
    await restarted.save({ version: 1, buffers: { a: bytes(2) }, noWait: true });
    await peer.save({ version: 1, buffers: { b: bytes(3) } });
    const details = await (await peer.latest())?.details();
    expect(details?.files.find((file) => file.name === 'a')?.key).toContain('/0.1-');
    expect(await failure(former.save({ version: 2, buffers: { a: bytes(1) }, noWait: true }))).toContain(
      'Fenced',
    );
  });

  test('writers that disagree on their number, or have no attempt in common, are told so before anything is written', async () => {
    const bucket = newBucket();
    await using first = job(bucket, 0, 2);
    await first.save({ version: 1, buffers: { a: bytes(1) }, noWait: true });
    const before = bucket.keys();
    await using wrong = job(bucket, 1, 3);
    expect(await failure(wrong.save({ version: 1, buffers: { b: bytes(1) } }))).toContain(
      'WorldSizeMismatch',
    );
    await using lonely = open(bucket, { writer: { index: 1, count: 2 } });
    expect(await failure(lonely.save({ version: 1, buffers: { b: bytes(1) } }))).toContain(
      'need an attempt id',
    );
    expect(() => open(bucket, { writer: { index: 4, count: 4 } })).toThrow('there is no writer 4 of 4');
    expect(bucket.keys()).toEqual(before);
  });

  test('two writers that deliver a file of one name are told so', async () => {
    const bucket = newBucket();
    await using first = job(bucket, 0, 2);
    await using second = job(bucket, 1, 2);
    await first.save({ version: 1, buffers: { same: bytes(1) }, noWait: true });
    expect(await failure(second.save({ version: 1, buffers: { same: bytes(2) } }))).toContain(
      'Conflict: version 1 cannot be committed: writers 0 and 1 both delivered "same"',
    );
  });
});

describe('the same version again', () => {
  test('the same content is success and sends nothing, other content is a conflict, a lower version too', async () => {
    const bucket = newBucket();
    await using first = open(bucket);
    await first.save({ version: 5, buffers: { a: bytes(1000) } });
    const before = bucket.keys();
    await using second = open(bucket);
    expect(await second.save({ version: 5, buffers: { a: bytes(1000) } })).toMatchObject({
      wasCommittedBefore: true,
      isCommitted: true,
    });
    expect(await failure(second.save({ version: 5, buffers: { a: bytes(1000, 2) } }))).toContain(
      'Conflict: version 5 is committed already, with other content',
    );
    expect(await failure(second.save({ version: 4, buffers: { a: bytes(1) } }))).toContain(
      'Conflict: version 4 is not above 5',
    );
    expect(bucket.keys()).toEqual(before);
  });

  test('a restarted writer whose version others commit while it joins has saved it, if its content is the same', async () => {
    for (const [seed, expected] of [
      [1, 'success'],
      [2, 'Conflict: version 1 is committed already, with other content'],
    ] as const) {
      const bucket = newBucket();
      const job = (index: number) => ({ attempt: 'job', writer: { index, count: 2 } });
      await using formerLife = open(bucket, job(0));
      await formerLife.save({ version: 1, buffers: { a: bytes(10) }, noWait: true });
      await using other = open(bucket, job(1));
      const store = new MemoryStore(bucket);
      // When the other writer delivers and commits, this one has already read the version as open.
      let isFirst = true;
      const create: typeof store.create = async (key, ...rest) => {
        if (isFirst) await other.save({ version: 1, buffers: { b: bytes(20) } });
        isFirst = false;
        return MemoryStore.prototype.create.call(store, key, ...rest);
      };
      await using restarted = open(bucket, { ...job(0), store: Object.assign(store, { create }) });
      const saved = restarted.save({ version: 1, buffers: { a: bytes(10, seed) } });
      const outcome = await saved.then(
        ({ wasCommittedBefore }) => (wasCommittedBefore ? 'success' : 'committed again'),
        (error: Error & { code: string }) => `${error.code}: ${error.message}`,
      );
      expect(outcome).toBe(expected);
    }
  });

  test('a process that repeats its own delivery goes on from it; with other content it is refused', async () => {
    const bucket = newBucket();
    await using manager = open(bucket, { attempt: 'job', writer: { index: 0, count: 2 } });
    await manager.save({ version: 1, buffers: { a: bytes(10) }, noWait: true });
    expect(
      (await manager.save({ version: 1, buffers: { a: bytes(10) }, noWait: true })).missingWriters,
    ).toEqual([1]);
    expect(await failure(manager.save({ version: 1, buffers: { a: bytes(11) }, noWait: true }))).toContain(
      'already delivered version 1',
    );
  });
});

test.each([-204_614_690_417, Number.MAX_SAFE_INTEGER])(
  'a machine whose clock says %i saves and commits: only people read its time',
  async (nowMs) => {
    const bucket = newBucket();
    await using manager = open(bucket, { clock: { ...systemClock, nowMs: () => nowMs } });
    expect((await manager.save({ version: 1, buffers: { a: bytes(10) } })).isCommitted).toBe(true);
    await manager.admin.pin(1, 'kept');
    expect((await manager.admin.log()).length).toBeGreaterThan(1);
  },
);
