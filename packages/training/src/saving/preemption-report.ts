/** What a preempted process reports: what is durable, and what is lost. Pure. */

import { isCheckpointError, jsonReady } from '@holdfast/core/contract';
import { secondsText, sharesText, writersText } from './in-flight-text.ts';
import type { SaveInFlight } from './saver.ts';

export interface PreemptionReport {
  /** The newest committed version. `null`: there is none. `unknown`: the store has not answered. */
  readonly durable: bigint | null | 'unknown';
  /** The state that was not saved. `version` is `null` if it had no version yet. */
  readonly lost: { readonly version: bigint | null; readonly why: string } | null;
  /** All of it in one sentence, for a log. */
  readonly text: string;
}

export type Loss = NonNullable<PreemptionReport['lost']>;

/** A save that is still in flight `afterMs` after the notice. */
export function lossInFlight(save: SaveInFlight, afterMs: number): Loss {
  const { writer, missingWriters, file } = save;
  const details = [sharesText(save.doneBytes, save.totalBytes)];
  if (file !== null) details.push(`at ${file}`);
  if (writer.count > 1) details.push(`writer ${writer.index} of ${writer.count}`);
  if (missingWriters.length > 0) details.push(`waiting for ${writersText(missingWriters)}`);
  return {
    version: save.version,
    why: `did not become durable in ${secondsText(afterMs)} (${details.join(', ')})`,
  };
}

export function lossByError(error: unknown, versionInFlight: bigint | null): Loss {
  const version = isCheckpointError(error) ? error.context.version : undefined;
  const message = error instanceof Error ? error.message : String(error);
  const why = isCheckpointError(error, 'OutcomeUnknown') ? 'may not have been saved' : 'could not be saved';
  return { version: version ?? versionInFlight, why: `${why}: ${message}` };
}

export function reportOf(durable: PreemptionReport['durable'], lost: Loss | null): PreemptionReport {
  if (lost === null)
    return jsonReady({ durable, lost, text: `preempted: no save is in progress; ${durableText(durable)}` });
  const what = lost.version === null ? 'the last state' : `version ${lost.version}`;
  return jsonReady({
    durable,
    lost,
    text: `preempted: ${what} ${lost.why}; ${durableText(durable)}${sinceText(durable)}`,
  });
}

function durableText(durable: PreemptionReport['durable']): string {
  if (durable === 'unknown')
    return 'the newest durable version is not known, because the store has not answered';
  return durable === null ? 'no version is durable' : `the newest durable version is ${durable}`;
}

function sinceText(durable: PreemptionReport['durable']): string {
  if (durable === 'unknown') return '';
  return durable === null ? ', all that was trained is lost' : ', what was trained since is lost';
}
