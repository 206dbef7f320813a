/** Detects a run whose catalog the store no longer shows. */

import { CheckpointError } from '../../contract/errors.ts';
import {
  type ClaimKeyParts,
  parseCheckpointPrefix,
  parseClaimKey,
  type State,
  versionsPrefix,
  writersPrefix,
} from '../../format/index.ts';
import type { Catalog, Head } from '../catalog/index.ts';
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

/** Catalogs that were compared with the claims of their run. */
const compared = new WeakSet<Catalog>();

/**
 * Called before an attempt takes the run over, and before the first decision of a manager. A
 * process claims its place in an epoch only after it has seen the entry that begins the epoch.
 * `StoreRegressed`: a claim has a later epoch or lineage than the catalog. So the store has lost
 * the entry that began it, or an older catalog was restored. A decision made there would hide
 * later checkpoints, and a sweep would delete them. Cost: one list page per 1,000 claims that no
 * sweep has removed; a second look at the catalog if there is such a claim.
 */
export async function assertNotOutlived(
  run: RunContext,
  head: Head,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { uri } = run.store;
  let { state } = head;
  for await (const { objects } of run.records.list(writersPrefix, { signal })) {
    for (const { key } of objects) {
      const claim = parseClaimKey(key);
      if (claim === null || !isLater(claim, state)) continue;
      // Another process may have begun that epoch after the catalog was read.
      state = (await run.catalog.read(signal)).state;
      if (!isLater(claim, state)) continue;
      throw new CheckpointError(
        'StoreRegressed',
        `${uri} has the claim ${key}, but the catalog is only at lineage ${state.lineage}, epoch ${state.epoch}: it has lost entries, or an older catalog was restored, so nothing is written`,
        { context: { store: uri, key } },
      );
    }
  }
  compared.add(run.catalog);
}

/** As `assertNotOutlived`, once in the life of a manager. */
export async function assertOnceNotOutlived(
  run: RunContext,
  head: Head,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (!compared.has(run.catalog)) await assertNotOutlived(run, head, signal);
}

function isLater(claim: ClaimKeyParts, state: State): boolean {
  return claim.epoch > state.epoch || claim.lineage > state.lineage;
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
