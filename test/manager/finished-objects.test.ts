/**
 * A save was killed after it had sent whole files. The next life of its writer does not send them
 * again.
 */

import type { ObjectStore, ProgressEvent } from '@holdfast/core';
import type { MemoryBucket } from '@holdfast/core/store';
import { FAULTS, type FaultPlan, ManualClock, refuse } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, newBucket, open } from './memory-run.ts';
import { bytesOf, type Life, life, PART, VERSION } from './resume-run.ts';

const FILES = {
  large: bytesOf(1, 5 * PART + 100),
  whole: bytesOf(2, PART),
  small: bytes(1000, 3),
};

/** All files are sent, and the receipt is not written. */
const killedBeforeReceipt: FaultPlan = ({ operation, key }) =>
  operation === 'create' && key.includes('/receipts/') ? FAULTS.stopBefore : undefined;

async function killedRun(files: Readonly<Record<string, Uint8Array>> = FILES): Promise<MemoryBucket> {
  const bucket = newBucket();
  const first = life(bucket, { clock: new ManualClock(), plan: killedBeforeReceipt });
  void first.manager.save({ version: VERSION, buffers: files });
  await first.store.stopped;
  return bucket;
}

/**
 * The next life saves `files`. Resolves to the names it sent, the bytes it kept, and the restored
 * files.
 */
async function nextLife(bucket: MemoryBucket, files: Readonly<Record<string, Uint8Array>>, options?: Life) {
  const next = life(bucket, options);
  const events: ProgressEvent[] = [];
  await next.manager.save({ version: VERSION, buffers: files, onProgress: (event) => events.push(event) });
  const sent = next.store.calls
    .filter(({ operation, key }) => ['create', 'beginUpload'].includes(operation) && /-[0-9a-f]+\//.test(key))
    .map(({ key }) => key.slice(key.lastIndexOf('/') + 1));
  const heads = next.count('head');
  await next.manager.close();
  const reader = open(bucket);
  const to = Object.fromEntries(
    Object.entries(files).map(([name, { length }]) => [name, new Uint8Array(length)]),
  );
  await reader.restore({ version: VERSION, to });
  for (const [name, expected] of Object.entries(files))
    expect(Buffer.compare(to[name] as Uint8Array, expected), name).toBe(0);
  const listed = (await (await reader.latest())?.details())?.files ?? [];
  await reader.close();
  const kept = events.flatMap((event) => (event.type === 'resumed' ? [[event.name, event.keptBytes]] : []));
  return {
    sent: sent.sort(),
    kept: kept.sort(),
    heads,
    keyOf: (name: string) => listed.find((each) => each.name === name)?.key,
  };
}

describe('files that a killed process had finished', () => {
  test('are not sent again, in parts or whole; only what is too small to ask for is', async () => {
    const { sent, kept, keyOf } = await nextLife(await killedRun(), FILES);
    expect(sent).toEqual(['small']);
    expect(kept).toEqual([
      ['large', FILES.large.length],
      ['whole', PART],
    ]);
    expect(
      [keyOf('large'), keyOf('whole'), keyOf('small')].map((key) => key?.split('/')[2]?.slice(0, 3)),
    ).toEqual(['0.0', '0.0', '0.1']);
  });

  test.each([
    ['hashed', 'auto'],
    ['not hashed', 'off'],
  ] as const)(
    'I1: one that has changed since is sent, and another is not taken for it (%s)',
    async (_, dedupe) => {
      const changed = { ...FILES, large: bytesOf(9, FILES.large.length), whole: bytesOf(8, PART) };
      const { sent, kept } = await nextLife(await killedRun(), changed, { dedupe });
      expect([sent, kept]).toEqual([['large', 'small', 'whole'], []]);
    },
  );

  test('I1: one of another name with the same bytes is sent', async () => {
    const { sent } = await nextLife(await killedRun({ a: FILES.large, small: FILES.small }), {
      b: FILES.large,
      small: FILES.small,
    });
    expect(sent).toEqual(['b', 'small']);
  });

  test('are sent again where the store keeps no checksum of objects', async () => {
    const change = (store: ObjectStore) => {
      const head = store.head.bind(store);
      store.head = async (...args) => {
        const { crc32c: _, ...info } = await head(...args);
        return info;
      };
    };
    const { sent, kept } = await nextLife(await killedRun(), FILES, { change });
    expect([sent, kept]).toEqual([['large', 'small', 'whole'], []]);
  });

  test('are sent again where the store does not tell what is there', async () => {
    const plan: FaultPlan = ({ operation }) => (operation === 'head' ? refuse('Denied') : undefined);
    const { sent } = await nextLife(await killedRun(), FILES, { plan });
    expect(sent).toEqual(['large', 'small', 'whole']);
  });

  test('I6: what another writer, a later life or another version has sent is not looked at', async () => {
    const bucket = newBucket();
    const first = life(bucket);
    await first.manager.join();
    for (const key of [
      'version_7/1.1/1.0-ab/whole',
      'version_7/1.1/0.9-ab/whole',
      'version_6/1.1/0.0-ab/whole',
    ])
      bucket.insert(key, FILES.whole);
    const { sent, heads } = await nextLife(bucket, { whole: FILES.whole });
    expect([sent, heads]).toEqual([['whole'], 0]);
  });

  test('in the first life of a writer nothing is asked', async () => {
    const bucket = newBucket();
    const first = life(bucket);
    await first.manager.save({ version: VERSION, buffers: FILES });
    expect([first.count('head'), first.count('list', `version_${VERSION}/1.1/0.`)]).toEqual([0, 0]);
    await first.manager.close();
  });
});
