/** Detects a run whose catalog the store no longer shows. */

import { CheckpointError } from '../../contract/errors.ts';
import { parseCheckpointPrefix, parseClaimKey, versionsPrefix, writersPrefix } from '../../format/index.ts';
import type { RunContext } from './context.ts';

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
  const key = await findRunKey(run, signal);
  if (key === undefined) return;
  // Another process may have begun the run after the catalog was listed.
  const { seq } = await run.catalog.read(signal);
  if (seq === 0) throw lostCatalog(run, key, consequence);
}

async function findRunKey(run: RunContext, signal: AbortSignal | undefined): Promise<string | undefined> {
  for (const prefix of [writersPrefix, versionsPrefix]) {
    for await (const { objects } of run.records.list(prefix, { signal })) {
      const found = objects.find(({ key }) => parseClaimKey(key) ?? parseCheckpointPrefix(key));
      if (found) return found.key;
    }
  }
  return undefined;
}

/** `key`: an object that only a run with a catalog has. `consequence`: what is not done. */
export function lostCatalog({ store }: RunContext, key: string, consequence: string): CheckpointError {
  const advice = [
    'stop every process of this run; if the catalog cannot be restored, `admin.rebuildCatalog` writes a new one',
  ];
  return new CheckpointError(
    'StoreRegressed',
    `${store.uri} has no catalog, but it has ${key}: the catalog is lost, so ${consequence}`,
    { context: { store: store.uri, key, catalog: 'lost', advice } },
  );
}
