/** Detects a catalog whose newest entry belongs to another run. */

import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import { type CatalogEntry, catalogKey, decodeRecord } from '../../format/index.ts';
import type { Catalog, Head } from '../catalog/index.ts';
import { getOrNull } from '../records/index.ts';
import type { RunContext } from './context.ts';
import { readRunRecord } from './run-record.ts';

/** Catalogs whose newest entry is of their own run. Later entries are compared with it. */
const own = new WeakSet<Catalog>();

/**
 * Called before a process begins an attempt, before it decides or deletes, and before it says that
 * a run has no checkpoint. `Corrupt`: the newest entry has the id of another run, as after a copy
 * of that run over this one. It hides the checkpoints of this run, and a sweep would delete them.
 *
 * An entry is its own run's if it has the id in run.json. A rebuild gives the run a new id, and
 * leaves a gap in the numbers. So entries after a gap are the run's own if all have one id. Cost:
 * the GET of run.json, once in the life of a manager; after a rebuild a list request and another
 * GET.
 */
export async function assertOwnEntries(
  run: RunContext,
  head: Head,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (head.seq === 0 || own.has(run.catalog)) return;
  const ofRun = await runIdIn(readRunRecord(run, signal));
  if (ofRun !== head.runId) {
    const seqs = new Set(await run.catalog.listSeqs(signal));
    let lowest = head.seq;
    while (seqs.has(lowest - 1)) lowest--;
    const before = await runIdIn(readEntry(run, lowest, signal));
    if (before !== undefined && before !== head.runId) throw foreign(run, head, lowest, before);
  }
  own.add(run.catalog);
}

/** Without the checks of `Catalog.entry`, which refuses an entry of another run. */
async function readEntry(
  { records, store }: RunContext,
  seq: number,
  signal: AbortSignal | undefined,
): Promise<CatalogEntry | null> {
  const key = catalogKey(seq);
  const bytes = await getOrNull(records, key, signal);
  return bytes && decodeRecord('catalog-entry', bytes, { key, store: store.uri });
}

/** `undefined`: the record is missing or damaged, so it tells nothing. */
async function runIdIn(reading: Promise<{ readonly runId: string } | null>): Promise<string | undefined> {
  try {
    return (await reading)?.runId;
  } catch (error) {
    if (isCheckpointError(error, 'Corrupt')) return undefined;
    throw error;
  }
}

function foreign({ store }: RunContext, head: Head, lowest: number, before: string): CheckpointError {
  const key = catalogKey(head.seq);
  const message = `${key} is of run ${head.runId}, and ${catalogKey(lowest)} is of run ${before}: files of another run were copied here`;
  const advice = [
    `nothing was changed; stop all writers, and copy everything below ${store.uri} to another place before you move anything`,
    `find out which of the two runs belongs here; objects that only the entries of the other run name become garbage, and \`collect\` deletes them`,
    'then move the catalog entries of the other run away, and run.json if it has the id of that run',
  ];
  const context = { store: store.uri, key, catalog: 'foreign', advice };
  return new CheckpointError('Corrupt', message, { context });
}
