/**
 * Options for the position of a process in its job, and warnings about versions that joining a run
 * has voided.
 */

import type { ProgressEvent, VoidedDeliveries } from '@holdfast/core/contract';
import type { Call } from './command.ts';
import { attempt, life, writer } from './common-options.ts';
import { type Job, resolveJob } from './env.ts';
import { printable } from './format.ts';
import { type JsonObject, jsonVersion } from './json.ts';
import type { Option } from './option.ts';
import { usageError } from './usage-error.ts';

/** Options of every command that may act for a writer. */
export const JOB_OPTIONS = [writer, attempt, life] as const;

export function jobOf(call: Call): Job {
  const given = { writer: call.sourced(writer), attempt: call.sourced(attempt), life: call.sourced(life) };
  const job = resolveJob(given, call.env);
  const { index, count } = job.writer.value;
  call.messages.detail(`writer ${index} of ${count} from ${job.writer.source}`);
  if (job.attempt !== null)
    call.messages.detail(`attempt ${printable(job.attempt.value)} from ${job.attempt.source}`);
  if (job.life !== null) call.messages.detail(`life ${printable(job.life.value)} from ${job.life.source}`);
  call.subject.hasLife = job.life !== null;
  return job;
}

/** For a command that only reads: it acts for a writer only if it is given a life. */
export function jobOfLife(call: Call): Job | undefined {
  if (call.sourced(life) !== null) return jobOf(call);
  for (const option of [writer, attempt] as readonly Option<unknown>[]) {
    // In the environment it is meant for the saves of the job.
    if (call.sourced(option)?.source !== `--${option.name}`) continue;
    throw usageError(`${call.command.name} takes --${option.name} only with --life`, [
      `without --life, ${call.command.name} acts for no writer`,
    ]);
  }
  return undefined;
}

/** Collects what was voided for the result, and prints a warning at once. */
export class VoidedWarnings {
  readonly #call: Call;
  readonly #found: VoidedDeliveries[] = [];

  constructor(call: Call) {
    this.#call = call;
  }

  /** Returns whether the event was such a warning. */
  take(event: ProgressEvent): boolean {
    if (event.type !== 'voided') return false;
    this.#found.push(event);
    const advice =
      this.#call.subject.hasLife === true
        ? 'this is a new life of the writer; a trainer that continues must keep its --life'
        : 'if one trainer starts both processes, pass the same --life ID to both, so that they are one writer';
    this.#call.messages.warn(`holdfast: warning: ${voidedText(event)}\n  ${advice}`);
    return true;
  }

  get json(): readonly JsonObject[] {
    return this.#found.map(({ writer: index, versions, isComplete, process, life: name }) => ({
      writer: index,
      versions: versions.map(jsonVersion),
      isComplete,
      process: { host: process.host, pid: process.pid },
      life: name === '' ? null : name,
    }));
  }
}

const SHOWN_MAX = 8;

export function voidedText(voided: VoidedDeliveries): string {
  const { writer: index, versions, isComplete, process, life: name } = voided;
  const host = process.host === '' ? '' : ` on ${printable(process.host)}`;
  const first = `${process.pid === 0 ? 'an earlier process' : `process ${process.pid}`}${host}`;
  const who = name === '' ? first : `life ${printable(name)} (first seen as ${first})`;
  const shown = versions.slice(0, SHOWN_MAX).join(', ');
  const more = versions.length > SHOWN_MAX ? ` and ${versions.length - SHOWN_MAX} more` : '';
  const atLeast = isComplete ? '' : ', and perhaps others';
  const what =
    versions.length === 0
      ? `everything that ${who} delivered and that is not committed`
      : `${versions.length === 1 ? 'version' : 'versions'} ${shown}${more}${atLeast}, delivered by ${who},`;
  return `${what} can no longer be committed: this process replaced it as writer ${index}`;
}
