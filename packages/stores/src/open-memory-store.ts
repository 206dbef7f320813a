import { crc32c } from '@holdfast/core';
import { CheckpointError, checkStoreInput, type ObjectStore } from '@holdfast/core/contract';
import { MemoryStore, memoryBucket } from '@holdfast/core/store';

/**
 * Opens a store in the memory of this process: `memory://name`. All stores of one name share their
 * objects, which live as long as the process. `InvalidConfig`: there is no name, or more than a
 * name.
 */
export function openMemoryStore(uri: string): ObjectStore {
  checkStoreInput(uri);
  const name = /^memory:\/\/([A-Za-z0-9._-]{1,100})$/.exec(uri)?.[1];
  if (name === undefined) {
    throw new CheckpointError(
      'InvalidConfig',
      'the memory:// URI has no valid name; write memory://name, with letters, digits, ".", "_" and "-" in the name',
    );
  }
  return new MemoryStore(memoryBucket(name, { crc32c }));
}
