/** Detects a run whose catalog the store no longer shows. */

import { CheckpointError } from '../../contract/errors.ts';
import {
  claimPrefix,
  parseCheckpointPrefix,
  parseClaimKey,
  versionsPrefix,
  writersPrefix,
} from '../../format/index.ts';
import type { Head } from '../catalog/index.ts';
import type { RunContext } from './context.ts';

const RESTORE_OR_REBUILD =
  'stop every process of this run; if the catalog cannot be restored, `admin.rebuildCatalog` writes a new one';

/** The consequence for a call that only reads. */
export const NOTHING_TOLD = 'the contents of the run are not known';

/**
 * Called if the store shows no entry of the catalog, before a run is begun there or treated as
 * never begun. `StoreRegressed`: there are claims or objects of a checkpoint, which are written
 * only after the first entry. So the catalog is lost, and a new one would hide those checkpoints.
 * Cost: two list requests.
 */
export async function assertNotLost(
  run: RunContext,
  signal: AbortSignal | undefined,
  consequence = 'nothing is written',
): Promise<void> {
  const key = await findRunKey(run, [writersPrefix, versionsPrefix], signal);
  if (key === undefined) return;
  // Another process may have begun the run after the catalog was listed.
  const { seq } = await run.catalog.read(signal);
  if (seq === 0) throw lostCatalog(run, key, consequence);
}

/**
 * Called before an attempt takes the run over. A process claims its place in an epoch only after it
 * has seen the entry that begins the epoch. `StoreRegressed`: there are claims in the epoch after
 * the newest one, so the store has lost that entry, or an older catalog was restored. An attempt
 * that began there would hide later checkpoints, and a sweep would delete them. Cost: a list
 * request; a second look at the catalog if there are claims.
 */
export async function assertNotOutlived(run: RunContext, head: Head, signal: AbortSignal): Promise<void> {
  const { lineage, epoch } = head.state;
  const prefix = claimPrefix(lineage, epoch + 1);
  if ((await findRunKey(run, [prefix], signal)) === undefined) return;
  // Another attempt may have begun that epoch after the catalog was read.
  const { seq } = await run.catalog.read(signal);
  if (seq > head.seq) return;
  const { uri } = run.store;
  throw new CheckpointError(
    'StoreRegressed',
    `${uri} has claims below ${prefix}, but the catalog is only at epoch ${epoch}: it has lost entries, or an older catalog was restored, so nothing is written`,
    { context: { store: uri, key: prefix, advice: [RESTORE_OR_REBUILD] } },
  );
}

/** A key of a claim or of a checkpoint's object below `prefixes`, or `undefined`. */
async function findRunKey(
  run: RunContext,
  prefixes: readonly string[],
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  for (const prefix of prefixes) {
    for await (const { objects } of run.records.list(prefix, { signal })) {
      const found = objects.find(({ key }) => parseClaimKey(key) ?? parseCheckpointPrefix(key));
      if (found) return found.key;
    }
  }
  return undefined;
}

/** `key`: an object that only a run with a catalog has. `consequence`: what is not done. */
export function lostCatalog({ store }: RunContext, key: string, consequence: string): CheckpointError {
  return new CheckpointError(
    'StoreRegressed',
    `${store.uri} has no catalog, but it has ${key}: the catalog is lost, so ${consequence}`,
    { context: { store: store.uri, key, catalog: 'lost', advice: [RESTORE_OR_REBUILD] } },
  );
}
