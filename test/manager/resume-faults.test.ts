/**
 * A resumed upload: the answers that the store may give, and what the upload's former owner may do
 * in the meantime.
 */

import { crc32c, type ObjectStore, systemClock } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FAULTS, type FaultPlan, type PlannedCall, refuse } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { failure, newBucket } from './memory-run.ts';
import {
  bytesOf,
  CONCURRENCY,
  changeUploads,
  detailsOf,
  expectAfresh,
  expectSaved,
  leftBehind,
  leftUpload,
  life,
  meanwhile,
  PART,
  PART_COUNT,
  payloads,
  recordKeys,
  source,
} from './resume-run.ts';

describe('an upload that was left and cannot be gone on with', () => {
  test.each(['NotFound', 'Unsupported', 'Unexpected', 'Denied', 'InvalidArgument', 'Unavailable'] as const)(
    'resumeUpload or listParts says %s: the file is sent afresh',
    async (code) => {
      for (const operation of ['resumeUpload', 'listParts'] as const) {
        const bucket = await leftBehind();
        const next = life(bucket, {
          plan: (call) => (call.operation === operation ? refuse(code) : undefined),
        });
        await next.save(source);
        await expectAfresh(bucket, next);
        expect(next.count('putPart')).toBe(PART_COUNT);
        await next.manager.close();
      }
    },
  );

  test('its token turns out to be of another object, or of parts of another size: the file is sent afresh', async () => {
    for (const other of [{ key: 'version_7/1.1/0.0-ff/other' }, { partSizeBytes: 2 * PART }]) {
      const bucket = await leftBehind();
      const change = changeUploads((upload) => Object.assign(upload, other));
      const next = life(bucket, { change });
      await next.save(source);
      await expectAfresh(bucket, next);
      await next.manager.close();
    }
  });

  test('it ends while parts are sent to it: the rest is not sent for nothing, and the file goes to a key of its own', async () => {
    const bucket = await leftBehind();
    const { token } = leftUpload(bucket).state;
    const missing = PART_COUNT - leftUpload(bucket).state.parts.size;
    const next = life(bucket, {
      plan: ({ operation }) => {
        if (operation === 'putPart') bucket.endUpload(token);
        return undefined;
      },
    });
    await next.save(source);
    await expectAfresh(bucket, next);
    expect(next.count('putPart') - PART_COUNT).toBeLessThanOrEqual(Math.min(missing, CONCURRENCY));
    expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
    await next.manager.close();
  });

  test.each(['Corrupt', 'Denied', 'InvalidArgument', 'NotFound', 'Unexpected'] as const)(
    'its completion is refused with %s: the file is sent afresh',
    async (code) => {
      const bucket = await leftBehind();
      const { key } = leftUpload(bucket).state;
      const plan: FaultPlan = (call) =>
        call.operation === 'complete' && call.key === key ? refuse(code) : undefined;
      const next = life(bucket, { plan });
      await next.save(source);
      await expectAfresh(bucket, next);
      expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
      await next.manager.close();
    },
  );

  test.each(['Denied', 'StorageFull'] as const)(
    'and the store refuses all parts with %s: so does the save',
    async (code) => {
      const bucket = await leftBehind();
      const next = life(bucket, {
        plan: ({ operation }) => (operation === 'putPart' ? refuse(code) : undefined),
      });
      expect(await failure(next.save(source))).toMatch(new RegExp(`^${code}: `));
      expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
      await next.manager.close();
    },
  );
});

describe('an upload of this life that others end', () => {
  /** Ends each of the first `times` uploads before its part 5. */
  const endedBy = (bucket: MemoryBucket, times: number): FaultPlan => {
    let left = times;
    return ({ operation, partIndex }) => {
      if (operation === 'putPart' && partIndex === 5 && left-- > 0)
        for (const { token } of bucket.openUploads()) bucket.endUpload(token);
      return undefined;
    };
  };

  test('is begun anew under another key, and nothing is left of it', async () => {
    const bucket = newBucket();
    const writer = life(bucket, { plan: endedBy(bucket, 1) });
    await writer.save(source);
    await expectSaved(bucket, source);
    expect([payloads(bucket).length, recordKeys(bucket), bucket.openUploads()]).toEqual([1, [], []]);
    await writer.manager.close();
  });

  test('again and again: the store is at fault, and NotFound is not what the caller hears', async () => {
    const bucket = newBucket();
    const writer = life(bucket, { plan: endedBy(bucket, Number.POSITIVE_INFINITY) });
    expect(await failure(writer.save(source))).toMatch(/^Unavailable: .*cannot be made under this key/);
    expect(writer.count('beginUpload')).toBe(3);
    await writer.manager.close();
  });

  test('I6: by a later life that goes on with it: the former one is Fenced', async () => {
    const bucket = newBucket();
    const later = life(bucket);
    let saved: Promise<unknown> | undefined;
    const plan: FaultPlan = ({ operation, partIndex }) => {
      if (operation === 'putPart' && partIndex === PART_COUNT - 1) saved ??= later.save(source);
      return undefined;
    };
    const change = (store: ObjectStore) => holdPart(store, PART_COUNT - 1, () => saved);
    const former = life(bucket, { plan, change, clock: systemClock });
    expect(await failure(former.save(source))).toMatch(/^Fenced/);
    await expectSaved(bucket, source);
    expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
    await Promise.all([former.manager.close(), later.manager.close()]);
  });
});

/** Sends the part of this index only after `held` has resolved. */
function holdPart(store: ObjectStore, index: number, held: () => Promise<unknown> | undefined): void {
  const begin = store.beginUpload.bind(store);
  store.beginUpload = async (...args) => {
    const upload = await begin(...args);
    const putPart = upload.putPart.bind(upload);
    upload.putPart = async (...call) => {
      if (call[0] === index) await held();
      return putPart(...call);
    };
    return upload;
  };
}

const isCompletion = ({ operation }: PlannedCall) => operation === 'complete';

describe('I1, I8: a former life that is not dead', () => {
  /** A former life that has sent these bytes. `send` sends its part `index` at any later time. */
  function zombie(bucket: MemoryBucket, content: Uint8Array) {
    const { token } = leftUpload(bucket).state;
    const upload = new MemoryStore(bucket).resumeUpload(token);
    const partOf = (index: number) => content.subarray(index * PART, (index + 1) * PART);
    return upload.then((own) => {
      const send = (index: number) => own.putPart(index, partOf(index), { crc32c: crc32c(partOf(index)) });
      return {
        send: (index: number) => void send(index),
        /** Takes effect at once. */
        complete: () => {
          const state = bucket.findUpload(token);
          for (let index = 0; index < PART_COUNT; index++) void send(index);
          const parts = [...(state?.parts ?? [])]
            .sort(([a], [b]) => a - b)
            .map(([index, part]) => ({
              index,
              sizeBytes: part.bytes.byteLength,
              etag: part.etag,
              crc32c: part.crc32c,
            }));
          void own.complete(parts, { sizeBytes: content.length, crc32c: crc32c(content) });
        },
        abort: () => void own.abort(),
      };
    });
  }

  test('completes the upload with the same bytes: its object is the successor’s too', async () => {
    const bucket = await leftBehind();
    const { key } = leftUpload(bucket).state;
    const { complete } = await zombie(bucket, source);
    const next = life(bucket, { plan: meanwhile(isCompletion, complete) });
    await next.save(source);
    await expectSaved(bucket, source);
    expect([(await detailsOf(bucket)).key, payloads(bucket)]).toEqual([key, [key]]);
    await next.manager.close();
  });

  test('completes it with other bytes: the successor sends its own afresh', async () => {
    const bucket = await leftBehind();
    const { complete } = await zombie(bucket, bytesOf(5));
    const next = life(bucket, { plan: meanwhile(isCompletion, complete) });
    await next.save(source);
    await expectAfresh(bucket, next);
    expect(payloads(bucket)).toHaveLength(2);
    await next.manager.close();
  });

  test('completes it, and the store keeps no checksum of objects: it may be of other bytes, and all is sent afresh', async () => {
    const bucket = await leftBehind();
    const { complete } = await zombie(bucket, bytesOf(5));
    const next = life(bucket, { change: withoutChecksums, plan: meanwhile(isCompletion, complete) });
    await next.save(source);
    await expectAfresh(bucket, next);
    await next.manager.close();
  });

  test('sends the same part once more: it has another name, and the object is made of it', async () => {
    const bucket = await leftBehind();
    const { key } = leftUpload(bucket).state;
    const { send } = await zombie(bucket, source);
    const next = life(bucket, { plan: meanwhile(isCompletion, () => send(2)) });
    await next.save(source);
    await expectSaved(bucket, source);
    expect((await detailsOf(bucket)).key).toBe(key);
    expect(next.count('complete')).toBe(2);
    await next.manager.close();
  });

  test('sends other bytes for a part that was kept, or sent again: the successor sends all afresh', async () => {
    for (const index of [2, PART_COUNT - 1]) {
      const bucket = await leftBehind();
      const { send } = await zombie(bucket, bytesOf(5));
      const next = life(bucket, { plan: meanwhile(isCompletion, () => send(index)) });
      await next.save(source);
      await expectAfresh(bucket, next);
      await next.manager.close();
    }
  });

  test('sends other bytes for a part, and neither parts nor objects have checksums by then: the successor sends all afresh', async () => {
    const bucket = await leftBehind({}, new MemoryBucket()); // without checksums of the store
    const { send } = await zombie(bucket, bytesOf(5));
    let lists = 0;
    const change = changeUploads((upload) => {
      const listParts = upload.listParts.bind(upload);
      upload.listParts = async () =>
        (await listParts()).map(({ crc32c: crc, ...part }) =>
          lists++ < PART_COUNT ? { ...part, crc32c: crc } : part,
        );
    });
    const plan = meanwhile(isCompletion, () => {
      lists = PART_COUNT;
      send(2);
    });
    const next = life(bucket, { change, plan });
    await next.save(source);
    await expectAfresh(bucket, next);
    await next.manager.close();
  });

  test('aborts it while the successor completes: all is sent afresh', async () => {
    const bucket = await leftBehind();
    const { abort } = await zombie(bucket, source);
    const next = life(bucket, { plan: meanwhile(isCompletion, abort) });
    await next.save(source);
    await expectAfresh(bucket, next);
    await next.manager.close();
  });

  test('two successors at once: one is committed, complete, whichever is first', async () => {
    const bucket = await leftBehind();
    const changed = bytesOf(3);
    // The second process registers and resumes the same upload while the first sends its last
    // parts.
    let second: Promise<unknown> | undefined;
    const later = life(bucket);
    const plan = meanwhile(
      ({ operation }) => operation === 'putPart',
      () => {
        second = later.save(changed);
      },
    );
    const first = life(bucket, { plan });
    expect(await failure(first.save(source))).toMatch(/^Fenced/);
    await second;
    await expectSaved(bucket, changed);
    expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
    await Promise.all([first.manager.close(), later.manager.close()]);
  });
});

function withoutChecksums(store: ObjectStore): void {
  const head = store.head.bind(store);
  store.head = async (...args) => {
    const { crc32c: _, ...info } = await head(...args);
    return info;
  };
}

describe('what became of an upload that was resumed', () => {
  test('the store keeps no checksum of objects: its word that it made it of the parts is enough', async () => {
    const bucket = await leftBehind();
    const { key } = leftUpload(bucket).state;
    const next = life(bucket, { change: withoutChecksums });
    await next.save(source);
    await expectSaved(bucket, source);
    expect((await detailsOf(bucket)).key).toBe(key);
    await next.manager.close();
  });

  test('the reply of the completion is lost: the object is found, compared, and taken', async () => {
    const bucket = await leftBehind();
    const { key } = leftUpload(bucket).state;
    let isLost = false;
    const plan: FaultPlan = ({ operation }) => {
      if (operation !== 'complete' || isLost) return undefined;
      isLost = true;
      return FAULTS.loseReply;
    };
    const next = life(bucket, { plan });
    await next.save(source);
    await expectSaved(bucket, source);
    expect((await detailsOf(bucket)).key).toBe(key);
    await next.manager.close();
  });

  test('the object is not what was sent, though the store says so: all is sent afresh', async () => {
    const bucket = await leftBehind();
    const { key } = leftUpload(bucket).state;
    const plan = meanwhile(
      (call) => call.operation === 'head' && call.key === key,
      () => bucket.damage(key, (content) => content.fill(0, 0, 10)),
    );
    const next = life(bucket, { plan });
    await next.save(source);
    await expectAfresh(bucket, next);
    await next.manager.close();
  });

  test('the object is gone, though the store said that it made it: all is sent afresh', async () => {
    const bucket = await leftBehind();
    const { key } = leftUpload(bucket).state;
    const plan = meanwhile(
      (call) => call.operation === 'head' && call.key === key,
      () => bucket.remove(key),
    );
    const next = life(bucket, { plan });
    await next.save(source);
    await expectAfresh(bucket, next);
    await next.manager.close();
  });
});
