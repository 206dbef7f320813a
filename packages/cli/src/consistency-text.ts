/**
 * Describes the moments at which the bytes of a checkpoint were taken, as its writers reported
 * them. Pure.
 */

import type { CheckpointDetails, Consistency, WriterState } from '@holdfast/core/contract';
import { formatDuration, formatWriters } from './format.ts';
import { type JsonObject, jsonTime, jsonVersion } from './json.ts';
import { renderTable } from './table.ts';

interface Told {
  readonly consistency: Consistency;
  readonly stateVersion: bigint;
  readonly takenAtMs: number;
}

/**
 * One line, such as `polluted   states of versions 1198 to 1203, taken within 4.2 s`. `null`: no
 * writer reported anything.
 */
export function consistencyText({ writers }: Pick<CheckpointDetails, 'writers'>): string | null {
  const told = toldBy(writers);
  if (told.length === 0) return null;
  const of = (wanted: Consistency | null) =>
    writers.filter(({ consistency }) => consistency === wanted).map(({ writer }) => writer);
  const [paused, polluted, silent] = [of('paused'), of('polluted'), of(null)];
  const isMixed = paused.length > 0 && polluted.length > 0;
  const facts = [
    ...(isMixed ? [`${formatWriters(paused)} paused, ${formatWriters(polluted)} polluted`] : []),
    `${versionsText(told)}, ${timeText(told)}`,
    ...(silent.length === 0
      ? []
      : [`${formatWriters(silent)} ${silent.length === 1 ? 'says' : 'say'} nothing`]),
  ];
  return `${isMixed ? 'mixed' : told[0]?.consistency}   ${facts.join('; ')}`;
}

/** The same as JSON: one object for each writer. */
export function jsonWriters({ writers }: Pick<CheckpointDetails, 'writers'>): JsonObject[] {
  return writers.map(({ writer, consistency, stateVersion, takenAtMs }) => ({
    writer,
    consistency,
    stateVersion: stateVersion === null ? null : jsonVersion(stateVersion),
    takenAt: jsonTime(takenAtMs ?? 0),
  }));
}

/** Lines of a table, with titles; empty if there is one writer, or no writer reported anything. */
export function writerLines({ writers }: Pick<CheckpointDetails, 'writers'>): string[] {
  if (writers.length === 1 || toldBy(writers).length === 0) return [];
  return renderTable(
    [
      { title: 'WRITER', align: 'right' },
      { title: 'STATE VERSION', align: 'right' },
      { title: 'TAKEN', align: 'left' },
    ],
    writers.map(({ writer, stateVersion, takenAtMs }) => [
      String(writer),
      stateVersion === null ? '-' : String(stateVersion),
      takenAtMs === null ? '-' : preciseTime(takenAtMs),
    ]),
  );
}

function toldBy(writers: readonly WriterState[]): Told[] {
  return writers.flatMap(({ consistency, stateVersion, takenAtMs }) =>
    consistency === null || stateVersion === null || takenAtMs === null
      ? []
      : [{ consistency, stateVersion, takenAtMs }],
  );
}

function versionsText(told: readonly Told[]): string {
  const versions = told.map(({ stateVersion }) => stateVersion).sort((a, b) => (a < b ? -1 : 1));
  const [lowest, highest] = [versions.at(0), versions.at(-1)];
  if (lowest !== highest) return `states of versions ${lowest} to ${highest}`;
  return `${told.length === 1 ? 'state of' : 'all of'} version ${lowest}`;
}

/** By the clocks of the writers. */
function timeText(told: readonly Told[]): string {
  const times = told.map(({ takenAtMs }) => takenAtMs).sort((a, b) => a - b);
  const [first = 0, last = first] = [times.at(0), times.at(-1)];
  return told.length === 1 ? `taken ${preciseTime(first)}` : `taken within ${formatDuration(last - first)}`;
}

/** `2026-07-31 10:00:05.123 UTC`. */
function preciseTime(atMs: number): string {
  return new Date(atMs).toISOString().replace('T', ' ').replace('Z', ' UTC');
}
