/** A store that keeps records in memory and drops files, in the worker if there is one. */

import { ServiceCalls, workersOf } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';

const SERVICE = new URL('./drop-service.mjs', import.meta.url);
/** Larger files are refused. Memory that is never touched takes no room. */
const NOTHING = new ArrayBuffer(4 * 1024 ** 3);

class DropStore extends MemoryStore {
  #calls;

  async beginUpload(key, options) {
    const upload = await super.beginUpload(key, options);
    return {
      key,
      token: upload.token,
      partSizeBytes: upload.partSizeBytes,
      putPart: async (index, bytes, { crc32c }) => {
        await this.#drop(bytes);
        return { index, sizeBytes: bytes.byteLength, crc32c, etag: `${index}` };
      },
      listParts: async () => [],
      complete: async (_parts, { sizeBytes }) => {
        await upload.abort();
        return this.bucket.insert(key, new Uint8Array(NOTHING, 0, sizeBytes));
      },
      abort: () => upload.abort(),
    };
  }

  async #drop(bytes) {
    const workers = workersOf(bytes);
    if (workers === undefined) return;
    this.#calls ??= new ServiceCalls(workers, SERVICE);
    await this.#calls.idlest.call(bytes);
  }

  async close() {
    this.#calls?.close();
    await super.close();
  }
}

export async function openDropStore() {
  return new DropStore(new MemoryBucket(), { capabilities: { maxCreateBytes: 8 * 1024 ** 2 } });
}
