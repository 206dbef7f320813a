/**
 * The only folder that moves payload: it shares memory, connections and retries among all
 * transfers. `docs/decisions/0003-transfer.md` gives the reasons for its design.
 */

export { repeatDelayMs } from '../contract/repeat-delay.ts';
export type { StoredFile } from '../plan/stored-file.ts';
export type {
  DownloadItem,
  FileLoan,
  FinishedObject,
  LeftUpload,
  MemoryUse,
  Transfers,
  UploadedFile,
  UploadItem,
  UploadSource,
  VerifyItem,
  VerifyReport,
} from './api.ts';
export { bufferTarget } from './buffer-target.ts';
export { listDirectories } from './directories.ts';
export { LAST_CHARACTER } from './listing.ts';
export { createTransferMemory, type TransferMemoryOptions } from './memory.ts';
export { listObjects, type ObjectOptions, openObjectSource, withRecords } from './objects.ts';
export type { TransferOptions, TransferParts } from './options.ts';
export { pauseBeforeRepeat, RetryBudget, type RetryPolicy, retrying } from './retry.ts';
export { readAgain, type SecondReadingOptions } from './second-reading.ts';
export { createThrottle } from './throttle.ts';
export { createTransfers } from './transfers.ts';
