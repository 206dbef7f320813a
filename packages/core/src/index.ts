/** The public API of the engine. */

export * from './contract/index.ts';
export { type GrantOptions, type Grants, type SaveGrant, withGrants } from './election/grants.ts';
export { crc32c, crc32cImplementation, idText, parseVersion, toVersion } from './format/index.ts';
export { createCheckpointManager } from './manager/manager.ts';
export type { CheckpointManagerOptions } from './manager/opening.ts';
export { findRunsBelow, hasRunAt, type RunsBelow } from './manager/run/index.ts';
export { isTruncatedPickle } from './plan/pickle.ts';
export {
  type LaidOutTensor,
  layOutSafetensors,
  type SafetensorsLayout,
  type TensorToLayOut,
} from './plan/safetensors-layout.ts';
export {
  createThrottle,
  createTransferMemory,
  listDirectories,
  listObjects,
  type ObjectOptions,
  openObjectSource,
  readAgain,
  type SecondReadingOptions,
  type TransferMemoryOptions,
} from './transfer/index.ts';
