/** The store's own files, at its root. */

import { STORE_OWN_PREFIX } from '@holdfast/core/contract';

/** Files are written here before they have a name. */
export const TEMPORARY_DIRECTORY = `${STORE_OWN_PREFIX}tmp`;
/** Holds objects on file systems without hard links. Their names are symbolic links. */
export const LINKED_DIRECTORY = `${STORE_OWN_PREFIX}data`;

/** Reserves space that is freed when the store is full. */
export const RESERVE_FILE = `${STORE_OWN_PREFIX}reserve`;
/** Holds empty files: a file system may have room for bytes, and for no more files. */
export const RESERVED_FILES_DIRECTORY = `${STORE_OWN_PREFIX}reserved-files`;

export function isOwnName(name: string): boolean {
  return name.startsWith(STORE_OWN_PREFIX);
}
