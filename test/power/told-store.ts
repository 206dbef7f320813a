/** A store that records its answers. All objects in them have to survive a power cut. */

import { isCheckpointError } from '@holdfast/core';
import type { ListPage, ObjectStore, Upload } from '@holdfast/core/contract';

export interface Ledger {
  /** An answer has shown that this object exists. */
  shown(key: string): void;
  /** The object may be missing from now on. */
  released(key: string): void;
}

export function toldStore(store: ObjectStore, ledger: Ledger): ObjectStore {
  const showing = async <T>(key: string, answer: Promise<T>): Promise<T> => {
    try {
      const value = await answer;
      ledger.shown(key);
      return value;
    } catch (error) {
      if (isCheckpointError(error, 'AlreadyExists')) ledger.shown(key);
      throw error;
    }
  };
  const upload = (begun: Upload): Upload => ({
    key: begun.key,
    token: begun.token,
    partSizeBytes: begun.partSizeBytes,
    putPart: (index, bytes, options) => begun.putPart(index, bytes, options),
    listParts: (options) => begun.listParts(options),
    complete: (parts, options) => showing(begun.key, begun.complete(parts, options)),
    abort: (options) => begun.abort(options),
  });
  return {
    uri: store.uri,
    capabilities: store.capabilities,
    create: (key, bytes, options) => showing(key, store.create(key, bytes, options)),
    head: (key, options) => showing(key, store.head(key, options)),
    get: (key, options) => showing(key, store.get(key, options)),
    readInto: (key, offsetBytes, buffer, options) => store.readInto(key, offsetBytes, buffer, options),
    beginUpload: async (key, options) => upload(await store.beginUpload(key, options)),
    resumeUpload: async (token, options) => upload(await store.resumeUpload(token, options)),
    ...(store.listUploads && { listUploads: store.listUploads.bind(store) }),
    list: (prefix, options) => pages(store.list(prefix, options), ledger),
    deleteMany: (keys, options) => {
      for (const key of keys) ledger.released(key);
      return store.deleteMany(keys, options);
    },
    close: () => store.close(),
  };
}

async function* pages(listing: AsyncIterable<ListPage>, ledger: Ledger): AsyncGenerator<ListPage> {
  for await (const page of listing) {
    for (const { key } of page.objects) ledger.shown(key);
    yield page;
  }
}
