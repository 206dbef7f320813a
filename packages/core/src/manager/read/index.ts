/** Reads committed checkpoints under a lease. */

export { type CommittedFiles, contentOf, readCommitted, readOriginal } from './committed-files.ts';
export { diff } from './diff.ts';
export { Hold } from './hold.ts';
export { inspect } from './inspect.ts';
export { LeaseHolder } from './lease.ts';
export { callersLeases, listLeases, objectTimeMs, releaseLease, takeLease } from './leases.ts';
export { locate } from './locate.ts';
export { readLog } from './log.ts';
export { inputStream, OpenFile, randomSource } from './open-file.ts';
export { leaseCheckpoint, restore, wantedReference } from './restore.ts';
