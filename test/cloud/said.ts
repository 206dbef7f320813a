/** The reported outcome of a save, and checks that it is true. */

import { createHash } from 'node:crypto';
import { isCheckpointError, type RunManager, type SaveResult } from '@holdfast/core';
import { readToken } from '@holdfast/core/internal/manager/records/tokens';
import type { Place, Truth } from './run-truth.ts';

export interface Said {
  readonly writer: number;
  /** `committed`, `delivered` if other writers were still missing, or the code of the error. */
  readonly outcome: string;
  readonly message: string;
  readonly isPermanent: boolean;
  /** The token of `OutcomeUnknown`. */
  readonly token: string | undefined;
  /** The writers that were reported as missing. */
  readonly missing: readonly number[];
}

/** The epoch of a run's first attempt, whose writers are judged. */
const EPOCH = 1;
export const WRITER_COUNT = 2;
/** Errors that claim only that this try failed. */
const TRIED_IN_VAIN = ['Unavailable', 'Throttled', 'TimedOut'];

export async function saidOf(writer: number, save: Promise<SaveResult>): Promise<Said> {
  try {
    const { isCommitted, missingWriters: missing } = await save;
    const outcome = isCommitted ? 'committed' : 'delivered';
    return { writer, outcome, message: outcome, isPermanent: false, token: undefined, missing };
  } catch (error) {
    if (!isCheckpointError(error)) throw error;
    const { code: outcome, message, status, context } = error;
    const missing = (context.missing ?? []).map((each) => each.writer);
    return { writer, outcome, message, isPermanent: status === 'permanent', token: context.token, missing };
  }
}

/** Throws unless the outcome is true at the moment of the report. */
export function judge(said: Said, { before, now }: { before: Truth; now: Truth }): void {
  const { writer, outcome } = said;
  const fail = (why: string) => {
    throw new Error(`I7: writer ${writer} was told ${said.message} (${outcome}), but ${why}`);
  };
  const isOurs = now.committedEpoch === EPOCH;
  const hasDelivered = isDelivered(now, writer);
  if (outcome === 'committed') {
    if (!isOurs) fail('it is not committed');
  } else if (outcome === 'delivered' || outcome === 'Incomplete') {
    if (!hasDelivered) fail('its receipt is not there');
    if (now.committedEpoch !== undefined) fail('it is committed');
    const missing = missingIn(now);
    if (`${said.missing}` !== `${missing}`)
      fail(`it said that ${said.missing} are missing, and it is ${missing}`);
  } else if (outcome === 'Conflict' || outcome === 'Fenced') {
    if (isOurs) fail('it is committed with its files');
    if (now.epoch <= EPOCH) fail('no other attempt was there');
  } else if (outcome === 'OutcomeUnknown') {
    if (said.token === undefined) fail('there is no token');
  } else {
    if (said.isPermanent || !TRIED_IN_VAIN.includes(outcome)) fail('nothing is wrong with the store');
    if (hasDelivered && !isDelivered(before, writer)) fail('its receipt is there, so others may commit it');
    if (isOurs && before.committedEpoch !== EPOCH) fail('it is committed');
  }
}

/** Throws unless the outcome is still true. `recover` must resolve an unknown outcome correctly. */
export async function judgeLater(
  said: Said,
  { now, view }: { now: Truth; view: Place['view'] },
  observer: RunManager,
): Promise<void> {
  const isOurs = now.committedEpoch === EPOCH;
  const { writer, outcome, token } = said;
  if (outcome === 'committed' && !isOurs)
    throw new Error(`I7: writer ${writer} was told committed, and later it is not`);
  if ((outcome === 'Conflict' || outcome === 'Fenced') && isOurs)
    throw new Error(`I7: writer ${writer} was told ${said.message} (${outcome}), and later it is committed`);
  if (outcome !== 'OutcomeUnknown') return;
  const recovered = await observer.recover(token ?? '');
  const isOfThisCall = await hasReceiptOf(said, now, view);
  const isDecided = isOurs || now.epoch !== EPOCH;
  const truth = isOurs && isOfThisCall ? 'committed' : isDecided ? 'not-committed' : 'pending';
  if (recovered.outcome !== truth)
    throw new Error(`I7: recover says ${recovered.outcome} (${recovered.detail}), and it is ${truth}`);
}

/**
 * Whether the receipt that is there is that of the call with this token. If the receipt of a call
 * never arrived, the writer's next call writes another one.
 */
async function hasReceiptOf({ writer, token }: Said, now: Truth, view: Place['view']): Promise<boolean> {
  const content = readToken(token ?? '');
  const key = now.delivered.get(`${EPOCH}/${writer}`);
  if (content.of !== 'commit' || content.receiptSha256 === undefined) return true;
  if (key === undefined) return false;
  const digest = createHash('sha256')
    .update(await view.read(key))
    .digest();
  return digest.equals(content.receiptSha256);
}

/**
 * Throws unless a rival received a true outcome of its own save or commit. Its own requests met no
 * fault.
 */
export function judgeRival(outcome: string, now: Truth): void {
  const isSo =
    outcome === 'committed'
      ? now.committedEpoch !== undefined
      : outcome === 'Conflict'
        ? now.committedEpoch === EPOCH
        : outcome === 'Incomplete';
  if (!isSo)
    throw new Error(`I7: the rival was told ${outcome}, and it is ${now.committedEpoch} that has committed`);
}

export async function outcomeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'committed';
  } catch (error) {
    if (!isCheckpointError(error)) throw error;
    return error.code;
  }
}

/** Writers without a receipt. */
export function missingIn(truth: Truth): number[] {
  return Array.from({ length: WRITER_COUNT }, (_, index) => index).filter(
    (index) => !isDelivered(truth, index),
  );
}

function isDelivered({ delivered }: Truth, writer: number): boolean {
  return delivered.has(`${EPOCH}/${writer}`);
}
