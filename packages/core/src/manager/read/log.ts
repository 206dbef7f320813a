/** The history of a run, as far back as the catalog keeps it. */

import type { CheckpointId } from '../../contract/checkpoint-facts.ts';
import type { LogEntry, LogOptions } from '../../contract/run-manager.ts';
import { type CatalogEntry, idEquals } from '../../format/index.ts';
import { mirrorOriginOf } from '../../plan/mirror.ts';
import { compareCommits } from '../../plan/pages.ts';
import { FIRST_SEQ } from '../../plan/rebuild.ts';
import { countCheckpoints } from '../../plan/state.ts';
import { type Catalog, withDamagedPart } from '../catalog/index.ts';
import { readAhead } from '../records/index.ts';

const LIMIT_DEFAULT = 50;
const READ_AT_ONCE = 8;

/** See `CheckpointManager.log`. Without `commitOf`: one list page, and one GET per entry. */
export async function readLog(
  catalog: Catalog,
  { limit = LIMIT_DEFAULT, commitOf, signal }: LogOptions,
): Promise<LogEntry[]> {
  if (commitOf !== undefined) {
    const entry = await commitEntry(catalog, commitOf, signal);
    return entry === null ? [] : [logEntry(entry)];
  }
  const seqs = (await catalog.listSeqs(signal)).reverse().slice(0, limit);
  // Read in order: of several damaged entries the newest is reported, because it matters most.
  const ahead = { count: READ_AT_ONCE, signal };
  const entries: LogEntry[] = [];
  for await (const entry of readAhead(seqs, ahead, (seq, until) =>
    withDamagedPart(seq === seqs[0] ? 'newest' : 'older', catalog.entry(seq, until)),
  ))
    if (entry !== null) entries.push(logEntry(entry)); // one that is missing was pruned meanwhile
  return entries;
}

/**
 * The entry that committed a checkpoint. Commits have one order, so the newest checkpoint of an
 * entry shows whether this one was committed by then. The search goes back in steps that double,
 * then bisects.
 */
async function commitEntry(
  catalog: Catalog,
  id: CheckpointId,
  signal: AbortSignal | undefined,
): Promise<CatalogEntry | null> {
  const { seq: newest } = await catalog.read(signal);
  let [before, since] = [FIRST_SEQ - 1, newest + 1];
  let first: CatalogEntry | null = null;
  const look = async (seq: number): Promise<boolean> => {
    const entry = await withDamagedPart(seq === newest ? 'newest' : 'older', catalog.entry(seq, signal));
    if (entry === null || !isCommittedBy(entry, id)) {
      before = seq;
      return false;
    }
    [since, first] = [seq, entry];
    return true;
  };
  for (let at = newest, step = 1; at >= FIRST_SEQ && (await look(at)); step *= 2) at -= step;
  while (since - before > 1) await look(Math.floor((before + since) / 2));
  return first !== null && isCommitOf(first, id) ? first : null;
}

function isCommittedBy({ state }: CatalogEntry, id: CheckpointId): boolean {
  const { newest } = countCheckpoints(state);
  return newest !== undefined && compareCommits(newest, id) >= 0;
}

function isCommitOf({ transaction: { kind, checkpoint } }: CatalogEntry, id: CheckpointId): boolean {
  return kind === 'commit' && checkpoint !== undefined && idEquals(checkpoint, id);
}

function logEntry({ seq, transaction, state }: CatalogEntry): LogEntry {
  const { kind, checkpoint, checkpoints, attempt, reason, host, pid, atMs } = transaction;
  const { lineage, epoch } = state;
  const process = { host, pid };
  const about = checkpoint ? [checkpoint] : checkpoints;
  const { count: versionCount } = countCheckpoints(state);
  const copyOf = mirrorOriginOf(attempt);
  const who = { lineage, epoch, attempt, copyOf, reason, process };
  return { seq, kind, checkpoints: about, versionCount, ...who, atMs };
}
