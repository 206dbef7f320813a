/** Lists objects below `version_*`, with as few list pages as the order of keys allows. */

import type { CheckpointId } from '../../contract/checkpoint-manager.ts';
import type { ObjectInfo } from '../../contract/object-store.ts';
import { parseCheckpointPrefix, versionsPrefix } from '../../format/index.ts';
import { LAST_CHARACTER } from '../../transfer/index.ts';
import type { RunParts } from '../records/index.ts';

/** Returns false if no more objects of this version are needed. */
type Visit = (object: ObjectInfo, id: CheckpointId | null, storeTimeMs: number) => boolean;

/**
 * Calls `visit` for each object. One list page per 1,000 objects. If `visit` returns false for
 * every object of a page, and all are of one version, its other pages are skipped.
 * `pageCountMax`: stop after so many pages; default: no limit. Resolves to false if the listing
 * stopped there.
 */
export async function listVersions(
  run: RunParts,
  visit: Visit,
  options: { readonly signal: AbortSignal | undefined; readonly pageCountMax?: number },
): Promise<boolean> {
  const { signal, pageCountMax = Number.POSITIVE_INFINITY } = options;
  let startAfter: string | undefined;
  let pageCount = 0;
  do {
    const pages = run.records.list(versionsPrefix, { startAfter, signal });
    startAfter = undefined;
    for await (const { objects, storeTimeMs } of pages) {
      if (pageCount++ === pageCountMax) return false;
      let isWanted = false;
      for (const object of objects)
        isWanted = visit(object, parseCheckpointPrefix(object.key), storeTimeMs) || isWanted;
      const only = isWanted ? '' : sharedDirectory(objects.map(({ key }) => key));
      if (only === '') continue;
      startAfter = `${only}${LAST_CHARACTER}`; // an unwanted version with very many files
      break;
    }
  } while (startAfter !== undefined);
  return true;
}

/** `version_{v}/` if all keys lie below it, else an empty string. The keys are sorted. */
function sharedDirectory(keys: readonly string[]): string {
  const [first = ''] = keys;
  const directory = first.slice(0, first.indexOf('/') + 1);
  return keys.at(-1)?.startsWith(directory) ? directory : '';
}
