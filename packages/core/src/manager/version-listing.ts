/** What lies below `version_*`, with as few list pages as the order of keys allows. */

import type { CheckpointId } from '../contract/checkpoint-manager.ts';
import type { ObjectInfo } from '../contract/object-store.ts';
import { parseCheckpointPrefix, versionsPrefix } from '../format/index.ts';
import type { Engine } from './engine.ts';

/** Sorts after every key below a directory. */
export const LAST_CHARACTER = '\u{10ffff}';

/** Whether more of this object's version is wanted. */
type Visit = (object: ObjectInfo, id: CheckpointId | null, storeTimeMs: number) => boolean;

/**
 * One list page per 1,000 objects. Of a version that is not wanted, the pages after its first are passed over. `pageCountMax`: it ends
 * after so many; default: it goes through all. Resolves to whether all were listed.
 */
export async function listVersions(
  engine: Engine,
  visit: Visit,
  options: { readonly signal: AbortSignal | undefined; readonly pageCountMax?: number },
): Promise<boolean> {
  const { signal, pageCountMax = Number.POSITIVE_INFINITY } = options;
  let startAfter: string | undefined;
  let pageCount = 0;
  do {
    const pages = engine.records.list(versionsPrefix, { startAfter, signal });
    startAfter = undefined;
    for await (const { objects, storeTimeMs } of pages) {
      if (pageCount++ === pageCountMax) return false;
      let isWanted = false;
      for (const object of objects)
        isWanted = visit(object, parseCheckpointPrefix(object.key), storeTimeMs) || isWanted;
      const only = isWanted ? '' : sharedDirectory(objects.map(({ key }) => key));
      if (only === '') continue;
      startAfter = `${only}${LAST_CHARACTER}`; // a version of very many files, which nobody asks for
      break;
    }
  } while (startAfter !== undefined);
  return true;
}

/** `version_{v}/` if all the keys, which are sorted, lie below it; else empty. */
function sharedDirectory(keys: readonly string[]): string {
  const [first = ''] = keys;
  const directory = first.slice(0, first.indexOf('/') + 1);
  return keys.at(-1)?.startsWith(directory) ? directory : '';
}
