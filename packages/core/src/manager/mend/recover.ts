/** Finds the outcome of a call that ended in `OutcomeUnknown`. Reads only. */

import type { RecoverResult } from '../../contract/checkpoint-manager.ts';
import { CheckpointError } from '../../contract/errors.ts';
import { bytesEqual, parseReceiptKey, sha256 } from '../../format/index.ts';
import { precheckCommit } from '../../plan/apply-commit.ts';
import type { CommitAnswer } from '../../plan/decision.ts';
import { TXN_RING_LENGTH } from '../../plan/state.ts';
import type { Head } from '../catalog/index.ts';
import {
  type CommitToken,
  type DecisionToken,
  getOrNull,
  listsReceipt,
  type RecordToken,
  readToken,
} from '../records/index.ts';
import { type RunContext, unlessRemoved } from '../run/index.ts';

export async function recover(run: RunContext, token: string, signal: AbortSignal): Promise<RecoverResult> {
  const content = readToken(token);
  if (content.of === 'record') return ofRecord(run, content, signal);
  const head = await run.catalog.read(signal);
  if (content.of === 'decision' && head.seq === 0) return pendingDecision(content);
  if (head.runId !== content.runId) {
    const found = head.runId === '' ? 'nothing was ever saved here' : `this is run ${head.runId}`;
    throw new CheckpointError('NotFound', `the token is of run ${content.runId}; ${found}`, {
      context: { store: run.store.uri },
    });
  }
  if (content.of === 'decision') return ofDecision(content, head);
  const { id, manifestSha256, receiptKey } = content;
  // Once a later process of the writer counts, this receipt will never be committed.
  const own = (receiptKey !== undefined && parseReceiptKey(receiptKey)) || undefined;
  const precheck = ({ state }: Head) => precheckCommit(state, id, own, manifestSha256);
  const { answer } = await run.catalog.ask(precheck, signal, head);
  return ofCommit(run, content, answer, signal);
}

async function ofCommit(
  run: RunContext,
  { id, manifestSha256, receiptKey, receiptSha256 }: CommitToken,
  answer: CommitAnswer | undefined,
  signal: AbortSignal,
): Promise<RecoverResult> {
  const result = (outcome: RecoverResult['outcome'], detail: string): RecoverResult => ({
    ...{ of: 'commit', id, outcome, detail, isDelivered: null },
  });
  const own = receiptKey === undefined ? undefined : { key: receiptKey, sha256: receiptSha256 };
  if (!answer) {
    const isDelivered = own === undefined ? null : await isThere(run, own, signal);
    const next =
      isDelivered === false
        ? 'its files are not delivered'
        : '`commit` settles it once all writers have delivered';
    const detail = `version ${id.version} is not committed, but still can be: ${next}`;
    return { ...result('pending', detail), isDelivered };
  }
  if (answer.kind === 'present-removed') {
    return result('committed', `version ${id.version} was committed, and has been removed since`);
  }
  if (answer.kind === 'rejected') {
    return result(answer.reason === 'unknown' ? 'unknown' : 'not-committed', answer.message);
  }
  const { checkpoint } = answer;
  const isSame = manifestSha256 !== undefined && bytesEqual(manifestSha256, checkpoint.manifestSha256);
  const isOurs =
    isSame ||
    own === undefined ||
    (await unlessRemoved(run.catalog, id, signal, () => listsReceipt(run, checkpoint, own, signal)));
  if (isOurs) return result('committed', `version ${id.version} is committed`);
  if (isOurs === null)
    return result('unknown', `version ${id.version} was removed while its records were read`);
  const detail = `version ${id.version} was committed with what another call or process of this writer delivered`;
  return result('not-committed', detail);
}

/** Whether the caller's receipt is there. Another process's receipt under the same key is not. */
async function isThere(
  run: RunContext,
  { key, sha256: digest }: { readonly key: string; readonly sha256: Uint8Array | undefined },
  signal: AbortSignal,
): Promise<boolean> {
  const bytes = await getOrNull(run.records, key, signal);
  return bytes !== null && (digest === undefined || bytesEqual(sha256(bytes), digest));
}

/** Judges as the sender would: see sending.ts. */
function ofDecision(content: DecisionToken, { seq, state }: Head): RecoverResult {
  const { txnId, kind, sentOn } = content;
  const result = { of: 'decision', id: null, isDelivered: null } as const;
  if (state.txnRing.includes(txnId)) {
    return { ...result, outcome: 'committed', detail: `the ${kind} decision took effect` };
  }
  if (seq <= sentOn) return pendingDecision(content);
  if (seq - sentOn > TXN_RING_LENGTH) {
    const detail = `${seq - sentOn} decisions came after the ${kind}: the catalog remembers ${TXN_RING_LENGTH}`;
    return { ...result, outcome: 'unknown', detail };
  }
  const detail = `another decision took effect instead of the ${kind}, which did not`;
  return { ...result, outcome: 'not-committed', detail };
}

function pendingDecision({ kind }: DecisionToken): RecoverResult {
  const detail = `the ${kind} decision is not in the catalog, but its request may still arrive: repeat the call`;
  return { of: 'decision', id: null, isDelivered: null, outcome: 'pending', detail };
}

async function ofRecord(
  run: RunContext,
  { key, sha256: digest }: RecordToken,
  signal: AbortSignal,
): Promise<RecoverResult> {
  const bytes = await getOrNull(run.records, key, signal);
  const result = { of: 'record', id: null, isDelivered: null } as const;
  if (!bytes) {
    const detail = `${key} is not there, but its request may still arrive`;
    return { ...result, outcome: 'pending', detail };
  }
  return bytesEqual(sha256(bytes), digest)
    ? { ...result, outcome: 'committed', detail: `${key} is there` }
    : { ...result, outcome: 'not-committed', detail: `${key} is of another process` };
}
