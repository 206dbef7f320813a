/** Finds the objects of a checkpoint, for tools that know nothing of Holdfast. */

import type { LocatedFile, LocateOptions, LocateResult } from '../../contract/history.ts';
import { compareUtf8 } from '../../contract/object-key.ts';
import { readSlices } from '../records/index.ts';
import { type RunContext, readRun } from '../run/index.ts';
import { withLeasedManifest } from './leased-manifest.ts';

export async function locate(
  run: RunContext,
  { version = 'latest', signal }: LocateOptions & { readonly signal: AbortSignal },
): Promise<LocateResult> {
  await readRun(run, signal);
  return withLeasedManifest(run, { version, signal }, async ({ id, manifest, signal: until }) => {
    const files: LocatedFile[] = [];
    const prefixes = new Set<string | null>();
    for await (const { writer, files: records } of readSlices(run, manifest, { signal: until }))
      for (const { name, key, sizeBytes } of records) {
        prefixes.add(prefixOf(key, name));
        files.push({ name, writer, sizeBytes, uri: `${run.store.uri}/${key}` });
      }
    files.sort((a, b) => compareUtf8(a.name, b.name));
    const [prefix] = prefixes.size === 1 ? prefixes : [null];
    const isWhole = prefix != null && (await holdsOnly(run, prefix, files.length, until));
    return { id, prefixUri: isWhole ? `${run.store.uri}/${prefix}` : null, files };
  });
}

/** A save that was continued by another process may have left objects that no file needs. */
async function holdsOnly(
  run: RunContext,
  prefix: string,
  fileCount: number,
  signal: AbortSignal,
): Promise<boolean> {
  let count = 0;
  for await (const { objects } of run.records.list(prefix, { signal })) {
    count += objects.length;
    if (count > fileCount) return false;
  }
  return count === fileCount;
}

/** A file that is the same as before has the object of an older version, maybe of another name. */
function prefixOf(key: string, name: string): string | null {
  return key.endsWith(`/${name}`) ? key.slice(0, -name.length) : null;
}
