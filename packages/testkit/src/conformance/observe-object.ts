import { isCheckpointError, type ObjectStore } from '@holdfast/core/contract';
import { expectBytes, expectEqual } from './expect.ts';

interface Watch {
  readonly store: ObjectStore;
  readonly key: string;
  /** The whole object. */
  readonly bytes: Uint8Array;
  readonly until: Promise<unknown>;
}

/**
 * Reads an object that is being created, in every way and as often as possible: it must be absent
 * or complete.
 */
export async function watchForParts({ store, key, bytes, until }: Watch): Promise<void> {
  let isMade = false;
  const made = until.then(
    () => (isMade = true),
    () => (isMade = true), // The caller handles the error.
  );
  const watch = async (look: () => Promise<void>) => {
    while (!isMade) {
      await look();
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const size = bytes.byteLength;
  const buffer = new Uint8Array(size + 1);
  await Promise.all([
    made,
    watch(async () => {
      const info = await unlessMissing(store.head(key));
      if (info !== undefined)
        expectEqual(info.sizeBytes, size, 'size by head of an object that is being made');
    }),
    watch(async () => {
      const object = await unlessMissing(store.get(key, { maxBytes: size }));
      if (object !== undefined) expectBytes(object.bytes, bytes, 'an object that is being made');
    }),
    watch(async () => {
      const count = await unlessMissing(store.readInto(key, 0, buffer));
      if (count !== undefined)
        expectBytes(buffer.subarray(0, count), bytes, 'an object that is being made, by readInto');
    }),
    watch(async () => {
      for await (const page of store.list(key)) {
        for (const info of page.objects)
          expectEqual(info.sizeBytes, size, 'size by list of an object that is being made');
      }
    }),
  ]);
}

async function unlessMissing<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (isCheckpointError(error, 'NotFound')) return undefined;
    throw error;
  }
}
