export type { ChecksumAnswer, ChecksumRequest } from './checksum-service.ts';
export { allocate, takeShared } from './memories.ts';
export { giveBack, type OpenWorkers, openWorkers, preferredWorkerCount } from './threads.ts';
export { CHECKSUM_SERVICE } from './worker-files.ts';
