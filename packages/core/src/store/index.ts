/** The reference store in memory, and a wrapper that reports calls. */

export {
  KeyAssertionError,
  type KeyReuse,
  MemoryBucket,
  type MemoryBucketOptions,
  memoryBucket,
} from './memory-bucket.ts';
export { MemoryStore, type MemoryStoreOptions } from './memory-store.ts';
export {
  ObservedStore,
  type ObservedStoreOptions,
  type StoreCall,
  type StoreOperation,
} from './observed-store.ts';
export { StoreBelow } from './store-below.ts';
