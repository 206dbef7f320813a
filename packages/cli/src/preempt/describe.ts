/** Texts about versions in progress and their outcome. Pure. */

import { type BegunVersion, CheckpointError, type CheckpointSummary } from '@holdfast/core/contract';
import {
  formatAge,
  formatBytes,
  formatDuration,
  formatPlural,
  formatRoughDuration,
  formatVersions,
  formatWriters,
  printable,
  shellQuote,
} from '../format.ts';
import { type JsonObject, jsonSummary, jsonVersion } from '../json.ts';
import type { Waited, WatchedVersion } from './wait-for-begun.ts';

export interface Circumstances {
  /** In a form that may be shown. */
  readonly uri: string;
  readonly deadlineMs: number;
  readonly nowMs: number;
  /** The only version to wait for. */
  readonly version: bigint | undefined;
}

/** It did not become durable. */
export const isLost = ({ fate }: WatchedVersion) => fate === 'open' || fate === 'over';

/** `writers 1 and 3 of 4 have not delivered`. */
export function lackText({ begun, refusal, fate }: WatchedVersion): string {
  if (fate === 'over') return 'the run was taken over or rolled back, so it can no longer be committed';
  if (begun === null) return 'none of its files is in the store';
  if (begun.missing.length > 0) {
    if (begun.worldSize === 1) return 'its writer has not delivered';
    const missing = begun.missing.map(({ writer }) => writer);
    const verb = missing.length === 1 ? 'has' : 'have';
    return `${formatWriters(missing)} of ${begun.worldSize} ${verb} not delivered`;
  }
  const reason = refusal === null ? 'it was not committed yet' : printable(refusal.message);
  return `all have delivered; ${reason}`;
}

/** One line about what is durable, if nothing was lost. */
export function durableText(durable: CheckpointSummary, waited: Waited, about: Circumstances): string {
  const passedOver = waited.versions.filter(({ fate }) => fate === 'passed-over');
  const size = `${formatBytes(durable.sizeBytes)} in ${formatPlural(durable.fileCount, 'file')}`;
  return [
    `version ${durable.version}`,
    size,
    `committed ${formatAge(durable.committedAtMs, about.nowMs)}`,
    waitText(waited, about),
    ...(passedOver.length === 0
      ? []
      : [`${formatVersions(passedOver.map(({ version }) => version))} skipped`]),
  ].join('   ');
}

function waitText({ versions, waitedMs }: Waited, { version }: Circumstances): string {
  if (versions.some(({ wasOpen }) => wasOpen)) return `waited ${formatDuration(waitedMs)}`;
  return version === undefined ? 'no save was in progress' : 'nothing to wait for';
}

const DETAILS_MAX = 8;

/** An `Incomplete` error, with all that is known about the lost versions. */
export function lossError(waited: Waited, about: Circumstances): CheckpointError {
  const lost = waited.versions.filter(isLost);
  const { context, headline } = headlineOf(lost, about);
  const advice = [
    ...lost.flatMap((each) => lossLines(each, lost.length > 1)),
    ...silenceLines(waited),
    newestLine(waited.durable, about),
    ...finishLines(lost, about.uri),
  ];
  return new CheckpointError('Incomplete', headline, {
    context: { store: about.uri, ...context, advice },
  });
}

function headlineOf(lost: readonly WatchedVersion[], { deadlineMs }: Circumstances) {
  const within = lost.every(({ fate }) => fate === 'over')
    ? ''
    : ` within ${formatRoughDuration(deadlineMs)}`;
  const [only, ...others] = lost;
  if (only === undefined || others.length > 0) {
    const versions = formatVersions(lost.map(({ version }) => version));
    return { headline: `versions ${versions} did not become durable${within}`, context: {} };
  }
  const { version, begun } = only;
  const missing = begun === null ? {} : { missing: begun.missing };
  return {
    headline: `version ${version} did not become durable${within}: ${lackText(only)}`,
    context: { version, ...missing },
  };
}

function lossLines(lost: WatchedVersion, isNamed: boolean): string[] {
  const { begun, fate, version } = lost;
  const named = isNamed ? [`version ${version}: ${lackText(lost)}`] : [];
  if (begun === null || fate === 'over') return named;
  const shown = begun.missing.slice(0, DETAILS_MAX).map(({ detail }) => printable(detail));
  const rest = begun.missing.length - shown.length;
  return [...named, ...shown, ...(rest > 0 ? [`${rest} more`] : []), ...arrivedLines(begun)];
}

function arrivedLines({ version, uploadedBytes }: BegunVersion): string[] {
  return uploadedBytes === 0 ? [] : [`${formatBytes(uploadedBytes)} of version ${version} had arrived`];
}

function silenceLines({ silent }: Waited): string[] {
  if (silent === null) return [];
  const why = silent.error === null ? '' : ` (${printable(silent.error.message)})`;
  return [
    `the store has not answered for ${formatRoughDuration(silent.forMs)}${why}; this is what was known before that`,
  ];
}

function newestLine(durable: CheckpointSummary | null, { nowMs }: Circumstances): string {
  if (durable === null) return 'the run has no checkpoint to load: all that was trained is lost';
  const age = formatAge(durable.committedAtMs, nowMs);
  return `newest durable: version ${durable.version}, committed ${age}; what was trained since is lost`;
}

function finishLines(lost: readonly WatchedVersion[], uri: string): string[] {
  const highest = lost.findLast(({ fate }) => fate === 'open');
  if (highest === undefined) return [];
  const command = `holdfast commit ${shellQuote(uri)} --version ${highest.version}`;
  return [`\`${command}\` finishes it if its writers still deliver before the job starts again`];
}

/** Output of `--json`, whether something was lost or not. */
export function waitedJson(waited: Waited, { uri }: Circumstances): JsonObject {
  const { durable, versions, waitedMs } = waited;
  const of = (wanted: WatchedVersion['fate']) =>
    versions.filter(({ fate }) => fate === wanted).map(({ version }) => jsonVersion(version));
  return {
    uri,
    durable: durable && jsonSummary(durable),
    committed: of('committed'),
    passedOver: of('passed-over'),
    lost: versions.filter(isLost).map((each) => ({
      version: jsonVersion(each.version),
      worldSize: each.begun?.worldSize ?? null,
      deliveredWriters: each.begun?.deliveredWriters ?? [],
      missing: (each.begun?.missing ?? []).map(({ writer, detail }) => ({ writer, detail })),
      uploadedBytes: each.begun?.uploadedBytes ?? 0,
      reason: lackText(each),
    })),
    waitedMs: Math.round(waitedMs),
  };
}
