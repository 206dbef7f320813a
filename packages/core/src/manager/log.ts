/** The history of a run, as far back as the catalog keeps it. */

import type { LogEntry } from '../contract/checkpoint-manager.ts';
import { CheckpointError } from '../contract/errors.ts';
import type { CatalogEntry } from '../format/index.ts';
import type { Catalog } from './catalog.ts';
import { damageTold } from './catalog-damage.ts';
import { inBatches } from './in-batches.ts';

const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 1000;
const READ_AT_ONCE = 8;

/** Newest first. One list page, and one GET per entry. */
export async function readLog(
  catalog: Catalog,
  limit: number = LIMIT_DEFAULT,
  signal: AbortSignal | undefined,
): Promise<LogEntry[]> {
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > LIMIT_MAX) {
    throw new CheckpointError(
      'InvalidArgument',
      `the limit is ${limit}; it takes a whole number from 1 to ${LIMIT_MAX}`,
    );
  }
  const seqs = (await catalog.listSeqs(signal)).reverse().slice(0, limit);
  const read = await inBatches(seqs, READ_AT_ONCE, (seq) =>
    damageTold(seq === seqs[0] ? 'newest' : 'older', catalog.entry(seq, signal)),
  );
  return read.filter((entry) => entry !== null).map(logEntry); // one that is missing was pruned meanwhile
}

function logEntry({ seq, transaction, state }: CatalogEntry): LogEntry {
  const { kind, checkpoint, checkpoints, attempt, reason, host, pid, atMs } = transaction;
  const { lineage, epoch } = state;
  const process = { host, pid };
  const about = checkpoint ? [checkpoint] : checkpoints;
  return { seq, kind, checkpoints: about, lineage, epoch, attempt, reason, process, atMs };
}
