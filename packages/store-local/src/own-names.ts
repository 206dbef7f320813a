/** The store's own files, at its root. */

import { STORE_OWN_PREFIX } from '@holdfast/core/contract';

/** Where files are written before they have a name. */
export const TEMPORARY_DIRECTORY = `${STORE_OWN_PREFIX}tmp`;
/** Where objects lie on file systems without hard links; their names are symbolic links. */
export const LINKED_DIRECTORY = `${STORE_OWN_PREFIX}data`;

/** Takes room that is given up when the store is full. */
export const RESERVE_FILE = `${STORE_OWN_PREFIX}reserve`;

export function isOwnName(name: string): boolean {
  return name.startsWith(STORE_OWN_PREFIX);
}
