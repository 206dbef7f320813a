/** Finds damage and repairs what can be repaired. */

export { fsck } from './fsck.ts';
export { rebuildCatalog, releaseSkipped } from './rebuild.ts';
export { recover } from './recover.ts';
export { verify } from './verify.ts';
