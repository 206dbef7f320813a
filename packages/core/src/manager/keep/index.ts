/** Decides what is kept, and deletes the rest. */

export { BackgroundRetention } from './background-retention.ts';
export { collect } from './collect.ts';
export { findGarbagePages } from './garbage-pages.ts';
export { addSliceKeys, heldWithoutManifest, manifestKeys } from './held-keys.ts';
export { pin, undelete, unpin } from './pins.ts';
export { planOnly, retention, setRetention } from './retention.ts';
export { findStrayUploads, measureUpload, type StrayUpload } from './stray-uploads.ts';
