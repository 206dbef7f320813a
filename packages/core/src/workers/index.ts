export type { ChecksumAnswer, ChecksumRequest } from './checksum-service.ts';
export { type OpenWorkers, openWorkers, preferredWorkerCount } from './threads.ts';
export { CHECKSUM_SERVICE } from './worker-files.ts';
