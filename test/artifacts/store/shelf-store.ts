/**
 * An example of a user's store: `shelf:///abs/dir`, kept in a directory. It forwards every call and
 * adds a word to the URI.
 */

import { crc32c } from '@holdfast/core';
import type {
  CallOptions,
  CreateOptions,
  DeleteResult,
  GetOptions,
  ListOptions,
  ListPage,
  ObjectInfo,
  ObjectStore,
  ReadOptions,
  StoreCapabilities,
  StoredObject,
  Upload,
  UploadOptions,
} from '@holdfast/core/contract';
import { openLocalStore } from '@holdfast/store-local';
import type { StoreAdapter } from '@holdfast/stores';

export class ShelfStore implements ObjectStore {
  readonly uri: string;
  readonly capabilities: StoreCapabilities;
  readonly inner: ObjectStore;

  constructor(uri: string, inner: ObjectStore) {
    this.uri = uri;
    this.inner = inner;
    this.capabilities = inner.capabilities;
  }

  create(key: string, bytes: Uint8Array, options?: CreateOptions): Promise<ObjectInfo> {
    return this.inner.create(key, bytes, options);
  }

  head(key: string, options?: CallOptions): Promise<ObjectInfo> {
    return this.inner.head(key, options);
  }

  get(key: string, options: GetOptions): Promise<StoredObject> {
    return this.inner.get(key, options);
  }

  readInto(key: string, offsetBytes: number, buffer: Uint8Array, options?: ReadOptions): Promise<number> {
    return this.inner.readInto(key, offsetBytes, buffer, options);
  }

  beginUpload(key: string, options: UploadOptions): Promise<Upload> {
    return this.inner.beginUpload(key, options);
  }

  resumeUpload(token: string, options?: CallOptions): Promise<Upload> {
    return this.inner.resumeUpload(token, options);
  }

  list(prefix: string, options?: ListOptions): AsyncIterable<ListPage> {
    return this.inner.list(prefix, options);
  }

  deleteMany(keys: readonly string[], options?: CallOptions): Promise<DeleteResult[]> {
    return this.inner.deleteMany(keys, options);
  }

  close(): Promise<void> {
    return this.inner.close();
  }
}

export async function openShelf(uri: string): Promise<ShelfStore> {
  return new ShelfStore(uri, await openLocalStore(uri.replace('shelf://', 'file://'), { crc32c }));
}

/** The export that `--store-module` and `registerStore` take. */
export const stores: Readonly<Record<string, StoreAdapter>> = {
  shelf: { form: 'shelf:///abs/dir', open: openShelf },
};
