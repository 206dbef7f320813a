/**
 * Reports what a process voids by joining: the receipts that earlier processes of its writer have
 * delivered and no commit has used yet. They no longer count. For people: no decision depends on
 * it.
 */

import type { VoidedDeliveries } from '../../contract/checkpoint-manager.ts';
import { throwIfAborted, toCheckpointError } from '../../contract/errors.ts';
import { parseReceiptKey, type State, type WriterIncarnation } from '../../format/index.ts';
import { type ClaimPlace, readClaim, withDeadline } from '../records/index.ts';
import { listVersions, type RunContext } from '../run/index.ts';
import { isOpen } from './begun.ts';

/** A restarted writer of a large run must not list for minutes. */
const PAGE_COUNT_MAX = 32;

export type OnVoided = (voided: VoidedDeliveries) => void;

/**
 * `state`: one in which this process's claim counts. If the store does not answer, the log says
 * that the deliveries are unknown, and the call succeeds.
 */
export async function tellVoided(
  run: RunContext,
  state: State,
  options: ClaimPlace &
    WriterIncarnation & { readonly onVoided: OnVoided; readonly signal: AbortSignal | undefined },
): Promise<void> {
  const { incarnation, signal, onVoided } = options;
  if (incarnation === 0) return;
  const { clock, settings } = run;
  const what = 'looking for deliveries of earlier processes';
  const bounds = { clock, timeoutMs: settings.stallTimeoutMs, what, signal };
  try {
    const voided = await withDeadline(bounds, (until) =>
      findVoided(run, state, { ...options, signal: until }),
    );
    if (voided === null) return;
    run.logger.log('warn', voidedText(voided));
    onVoided(voided);
  } catch (error) {
    throwIfAborted(signal);
    const { message } = toCheckpointError(error);
    run.logger.log('warn', `the deliveries of earlier processes of this writer are not known: ${message}`);
  }
}

/** `null`: this join voided no receipts. */
async function findVoided(
  run: RunContext,
  state: State,
  own: ClaimPlace & WriterIncarnation & { readonly signal: AbortSignal },
): Promise<VoidedDeliveries | null> {
  const { writer, signal } = own;
  const found = new Map<number, bigint[]>();
  const isListed = await listVersions(
    run,
    ({ key }, id) => {
      if (id === null || !isOpen(state, id)) return false;
      const receipt = parseReceiptKey(key);
      if (receipt?.writer === writer && receipt.incarnation < own.incarnation)
        found.set(receipt.incarnation, [...(found.get(receipt.incarnation) ?? []), id.version]);
      return true;
    },
    { signal, pageCountMax: PAGE_COUNT_MAX },
  );
  // Receipts of still earlier processes were voided, and reported, by this process's predecessor.
  const incarnation = Math.max(...found.keys());
  const versions = found.get(incarnation);
  if (versions === undefined) return isListed || state.worldSize === 1 ? null : await unlisted(run, own);
  const by = await processOf(run, { ...own, incarnation }, signal);
  return { writer, versions: versions.sort((a, b) => (a < b ? -1 : 1)), isComplete: isListed, ...by };
}

async function unlisted(
  run: RunContext,
  own: ClaimPlace & WriterIncarnation & { readonly signal: AbortSignal },
): Promise<VoidedDeliveries> {
  const by = await processOf(run, { ...own, incarnation: own.incarnation - 1 }, own.signal);
  return { writer: own.writer, versions: [], isComplete: false, ...by };
}

async function processOf(
  run: RunContext,
  place: ClaimPlace & WriterIncarnation,
  signal: AbortSignal,
): Promise<Pick<VoidedDeliveries, 'process' | 'life'>> {
  const claim = await readClaim(run, place, signal);
  return { process: { host: claim?.host ?? '', pid: claim?.pid ?? 0 }, life: claim?.life ?? '' };
}

/** One sentence for a log. */
export function voidedText({ writer, versions, isComplete, process, life }: VoidedDeliveries): string {
  const { host, pid } = process;
  const who = `${pid === 0 ? 'an earlier process' : `process ${pid}`}${host && ` on ${host}`}${life && ` (life "${life}")`}`;
  const list =
    versions.length === 0
      ? 'everything that'
      : `${isComplete ? '' : 'among others '}${versionsText(versions)}, which`;
  return `${list} ${who} had delivered as writer ${writer} can no longer be committed: this process replaced it`;
}

const SHOWN_MAX = 16;

function versionsText(versions: readonly bigint[]): string {
  const shown = versions.slice(0, SHOWN_MAX).join(', ');
  const more = versions.length > SHOWN_MAX ? ` and ${versions.length - SHOWN_MAX} more` : '';
  return `${versions.length === 1 ? 'version' : 'versions'} ${shown}${more}`;
}
