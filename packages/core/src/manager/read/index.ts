/** Reads committed checkpoints under a lease. */

export { type CommittedFiles, contentOf, readCommitted, readOriginal } from './committed-files.ts';
export { Hold } from './hold.ts';
export { LeaseHolder } from './lease.ts';
export { withLeasedManifest } from './leased-manifest.ts';
export { callersLeases, listLeases, objectTimeMs, releaseLease, takeLease } from './leases.ts';
export { locate } from './locate.ts';
export { readLog } from './log.ts';
export { inputStream, OpenFile, randomSource } from './open-file.ts';
export { leaseCheckpoint, openTarget, restore, wantedReference } from './restore.ts';
