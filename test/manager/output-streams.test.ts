/** Files that are written through streams: a commit has all of them or fails. */

import { type Checkpoint, CheckpointError, type RunManager } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

const DATA = bytes(1000);

async function write(checkpoint: Checkpoint, name: string, data = DATA): Promise<void> {
  const writer = checkpoint.openOutputStream(name).getWriter();
  await writer.write(data);
  await writer.close();
}

async function filesOf(manager: RunManager): Promise<[string, number][]> {
  const details = await (await manager.latest())?.details();
  return (details?.files ?? []).map(({ name, sizeBytes }) => [name, sizeBytes]);
}

describe('a commit after a stream has failed', () => {
  const failed = (name: string, reason: string) =>
    `InvalidArgument: not completely written: "${name}" (${reason}); write it again, or discard this checkpoint`;

  test('refuses, names the file and the reason, and commits once it was written again', async () => {
    await using manager = open(newBucket());
    const checkpoint = await manager.create(1);
    await write(checkpoint, 'b');
    const writer = checkpoint.openOutputStream('a').getWriter();
    await writer.write(DATA);
    await writer.abort(new Error('its producer failed'));
    expect(await failure(checkpoint.commit())).toBe(failed('a', 'its producer failed'));
    expect(await manager.latest()).toBeNull();
    await write(checkpoint, 'a');
    await checkpoint.commit();
    expect(await filesOf(manager)).toEqual([
      ['a', 1000],
      ['b', 1000],
    ]);
  });

  test('names every such file', async () => {
    await using manager = open(newBucket());
    const checkpoint = await manager.create(1);
    for (const name of ['a', 'b']) await checkpoint.openOutputStream(name).abort(new Error(`no ${name}`));
    const message = await failure(checkpoint.commit());
    expect(message).toContain('"a" (no a), "b" (no b)');
    await checkpoint.discard();
  });

  test('refuses at once, while the upload of the failed stream is still ending', async () => {
    await using manager = open(newBucket());
    const checkpoint = await manager.create(1);
    await write(checkpoint, 'b');
    void checkpoint.openOutputStream('a').abort(new Error('early'));
    expect(await failure(checkpoint.commit())).toBe(failed('a', 'early'));
  });

  test('a pipe that its signal stopped', async () => {
    await using manager = open(newBucket());
    const checkpoint = await manager.create(1);
    await write(checkpoint, 'b');
    const stop = new AbortController();
    const endless = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(DATA) });
    const piping = endless.pipeTo(checkpoint.openOutputStream('a'), { signal: stop.signal });
    stop.abort(new Error('no time'));
    await expect(piping).rejects.toThrow('no time');
    expect(await failure(checkpoint.commit())).toBe(failed('a', 'no time'));
  });

  test('a pipe whose source failed', async () => {
    await using manager = open(newBucket());
    const checkpoint = await manager.create(1);
    await write(checkpoint, 'b');
    const broken = ReadableStream.from(
      (async function* () {
        yield DATA;
        throw new Error('no more');
      })(),
    );
    await expect(broken.pipeTo(checkpoint.openOutputStream('a'))).rejects.toThrow('no more');
    expect(await failure(checkpoint.commit())).toBe(failed('a', 'no more'));
  });

  test('a stream that the store refused: its writer is told why, and its place is free for another try', async () => {
    const bucket = newBucket();
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    let isFull = true;
    store.create = (key, ...rest) =>
      isFull && key.endsWith('/a')
        ? Promise.reject(new CheckpointError('StorageFull', 'no room'))
        : create(key, ...rest);
    await using manager = open(bucket, { store });
    const checkpoint = await manager.create(1);
    await write(checkpoint, 'b');
    for (let round = 0; round < 10; round += 1) {
      const writer = checkpoint.openOutputStream('a').getWriter();
      await writer.write(DATA);
      expect(await failure(writer.close())).toContain('StorageFull: no room');
      expect(await failure(checkpoint.commit())).toBe(failed('a', 'no room'));
    }
    isFull = false;
    await write(checkpoint, 'a');
    await checkpoint.commit();
    expect(await filesOf(manager)).toHaveLength(2);
  });

  test('a part that the store refused: the next write says why', async () => {
    const bucket = newBucket();
    const store = new MemoryStore(bucket);
    store.beginUpload = () => Promise.reject(new CheckpointError('StorageFull', 'no room'));
    await using manager = open(bucket, { store });
    const checkpoint = await manager.create(1);
    const writer = checkpoint.openOutputStream('a').getWriter();
    const writing = (async () => {
      for (;;) await writer.write(bytes(1_000_000));
    })();
    expect(await failure(writing)).toBe('StorageFull: no room');
    expect(await failure(checkpoint.commit())).toBe(failed('a', 'no room'));
  });

  test.each([
    ['the first fails, then the second is written', ['open 1', 'fail 1', 'open 2', 'close 2'], true],
    ['the second is written, then the first fails', ['open 1', 'open 2', 'close 2', 'fail 1'], true],
    ['the first is written, then the second fails', ['open 1', 'close 1', 'open 2', 'fail 2'], false],
    ['the second fails, then the first is written', ['open 1', 'open 2', 'fail 2', 'close 1'], false],
  ])('two streams into one file: %s', async (_, steps, commits) => {
    await using manager = open(newBucket());
    const checkpoint = await manager.create(1);
    const writers = new Map<string, WritableStreamDefaultWriter<Uint8Array>>();
    for (const step of steps) {
      const [what, which] = step.split(' ') as [string, string];
      if (what === 'open') writers.set(which, checkpoint.openOutputStream('a').getWriter());
      else if (what === 'fail') await writers.get(which)?.abort(new Error('failed'));
      else await writers.get(which)?.close();
    }
    if (commits) await checkpoint.commit();
    else expect(await failure(checkpoint.commit())).toBe(failed('a', 'failed'));
    await checkpoint.discard();
  });
});

describe('a commit and the streams beside it', () => {
  test('a stream that was never closed is named, and commits once it is', async () => {
    await using manager = open(newBucket());
    const checkpoint = await manager.create(1);
    const writer = checkpoint.openOutputStream('a').getWriter();
    await writer.write(DATA);
    expect(await failure(checkpoint.commit())).toBe('InvalidArgument: an output stream is still open: a');
    await writer.close();
    await checkpoint.commit();
    expect(await filesOf(manager)).toEqual([['a', 1000]]);
  });

  test('no file can be begun while it is being committed: it would be missing', async () => {
    await using manager = open(newBucket());
    const checkpoint = await manager.create(1);
    await write(checkpoint, 'a');
    const committing = checkpoint.commit();
    expect(() => checkpoint.openOutputStream('b')).toThrow(
      'version 1 is being committed: "b" would not be part of it',
    );
    await Promise.all([committing, checkpoint.commit()]);
    await checkpoint.commit();
    expect(await filesOf(manager)).toEqual([['a', 1000]]);
    expect(() => checkpoint.openOutputStream('b')).toThrow('version 1 is committed already');
  });

  test('discard says so to a writer that goes on', async () => {
    await using manager = open(newBucket());
    const checkpoint = await manager.create(1);
    const writer = checkpoint.openOutputStream('a').getWriter();
    await checkpoint.discard();
    expect(await failure(writer.close())).toBe('Aborted: version 1 was discarded');
  });
});

test('streams that stay open, of any checkpoints, leave room for a save that reads a stream', async () => {
  await using manager = open(newBucket());
  const opened: WritableStreamDefaultWriter<Uint8Array>[] = [];
  const openNext = async () => {
    const checkpoint = await manager.create(opened.length + 2);
    const writer = checkpoint.openOutputStream('a').getWriter();
    opened.push(writer);
    await writer.write(DATA);
  };
  let refused = '';
  while (refused === '' && opened.length < 1000) refused = await openNext().then(() => '', String);
  expect(refused).toContain(`${opened.length} output streams of this manager are open already: close one`);
  const files = {
    a: (async function* () {
      yield DATA;
    })(),
  };
  await manager.save({ version: 1, files });
  await opened[0]?.close();
  await openNext();
});
