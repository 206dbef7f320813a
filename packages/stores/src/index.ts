/** Opens the store of a URI, and the manager of the run in it. */

export type { StoreEnvironment } from './env.ts';
export { findRunAround } from './first-save.ts';
export { type OpenOptions, openCheckpointManager } from './open-checkpoint-manager.ts';
export { openStore, registerStore, type StoreAdapter, storeUriForms } from './open-store.ts';
export { isPath } from './uri.ts';
