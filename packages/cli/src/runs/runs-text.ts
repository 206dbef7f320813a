/** Runs as a table for people. Pure. */

import type { RunSummary, SaveInProgress } from '@holdfast/fleet';
import { formatBytes, formatPlural, formatRoughDuration, formatWriters, printable } from '../format.ts';
import type { Style } from '../style.ts';
import { type Column, tableLines } from '../table.ts';
import { monthlyCost, type Prices } from './prices.ts';
import { ageMs, STATES } from './select-runs.ts';

const PROBLEMS_MAX = 20;
const UNKNOWN = '?';

export interface RunsTable {
  readonly nowMs: number;
  readonly style: Style;
  readonly prices: Prices | null;
  readonly hasSaves: boolean;
  /** There are several places: whole URIs are shown. */
  readonly hasPlaces: boolean;
}

export function* runsLines(runs: readonly RunSummary[], table: RunsTable): Iterable<string> {
  const cells = columnsOf(table);
  const lines = tableLines(
    cells.map(({ column }) => column),
    runs,
    (run) => cells.map(({ cellOf }) => cellOf(run)),
  );
  let isTitle = true;
  for (const line of lines) {
    yield isTitle ? table.style('bold', line) : line;
    isTitle = false;
  }
  yield '';
  yield totalsText(runs, table.prices);
  yield* problemLines(runs, table);
}

interface Cell {
  readonly column: Column;
  readonly cellOf: (run: RunSummary) => string;
}

function columnsOf(table: RunsTable): Cell[] {
  const { nowMs, prices } = table;
  const left = (title: string, cellOf: Cell['cellOf']) =>
    ({ column: { title, align: 'left' }, cellOf }) as const;
  const right = (title: string, cellOf: Cell['cellOf']) =>
    ({ column: { title, align: 'right' }, cellOf }) as const;
  return [
    left('RUN', (run) => nameText(run, table)),
    left('STATE', ({ state }) => state),
    right('VERSION', ({ latest, asOfMs }) => latest?.version ?? orUnknown(asOfMs)),
    right('AGE', (run) => ageText(run, nowMs)),
    right('WRITERS', ({ writerCount }) => text(writerCount)),
    right('STORED', ({ storedBytes }) => bytesText(storedBytes)),
    right('REFERENCED', ({ referencedBytes }) => bytesText(referencedBytes)),
    right('KEPT', keptText),
    right('ATTEMPTS', ({ recentAttemptCount }) => text(recentAttemptCount)),
    right('FENCES', ({ recentFenceCount }) => text(recentFenceCount)),
    left('VERIFIED', verifiedText),
    ...(table.hasSaves ? [left('SAVING', ({ savesInProgress }) => savesText(savesInProgress))] : []),
    ...(prices === null
      ? []
      : [right(`${prices.currency}/MONTH`, (run) => costText(monthlyCost(prices, run)))]),
  ];
}

function nameText({ name, uri }: RunSummary, { hasPlaces }: RunsTable): string {
  return printable(hasPlaces || name === '' ? uri : name);
}

/** Facts that were read, and there are none: a dash. */
function orUnknown(asOfMs: number | null): string {
  return asOfMs === null ? UNKNOWN : '-';
}

function text(value: number | null): string {
  return value === null ? UNKNOWN : String(value);
}

function bytesText(bytes: number | null): string {
  return bytes === null ? UNKNOWN : formatBytes(bytes);
}

function ageText(run: RunSummary, nowMs: number): string {
  const age = ageMs(run, nowMs);
  return age === null ? orUnknown(run.asOfMs) : formatRoughDuration(age);
}

function keptText({ retainedCount, retiringCount, quarantinedCount }: RunSummary): string {
  if (retainedCount === null) return UNKNOWN;
  const retiring = retiringCount ? ` +${retiringCount} retiring` : '';
  const quarantined = quarantinedCount ? ` +${quarantinedCount} quarantined` : '';
  return `${retainedCount}${retiring}${quarantined}`;
}

function verifiedText({ asOfMs, storeTimeMs, verifiedVersion, verifiedAtMs }: RunSummary): string {
  if (verifiedVersion === null) return orUnknown(asOfMs);
  const isKnown = storeTimeMs !== null && verifiedAtMs !== null;
  return isKnown
    ? `${verifiedVersion}, ${formatRoughDuration(storeTimeMs - verifiedAtMs)} ago`
    : verifiedVersion;
}

export function savesText(saves: readonly SaveInProgress[] | null): string {
  if (saves === null) return UNKNOWN;
  if (saves.length === 0) return '-';
  return saves
    .map(({ version, writerCount, deliveredWriters, missingWriters }) => {
      const missing = missingWriters.map(({ writer }) => writer);
      const who = missing.length === 0 ? '' : `, missing ${formatWriters(missing)}`;
      return `${version}: ${deliveredWriters.length} of ${writerCount}${who}`;
    })
    .join('; ');
}

function costText(cost: number | null): string {
  return cost === null ? UNKNOWN : cost.toFixed(2);
}

function totalsText(runs: readonly RunSummary[], prices: Prices | null): string {
  const counts = STATES.map((state) => ({ state, count: runs.filter((run) => run.state === state).length }));
  const states = counts.filter(({ count }) => count > 0).map(({ state, count }) => `${count} ${state}`);
  const unknownCount = runs.filter(({ storedBytes }) => storedBytes === null).length;
  const storedBytes = runs.reduce((sum, run) => sum + (run.storedBytes ?? 0), 0);
  const costs = prices === null ? [] : runs.map((run) => monthlyCost(prices, run));
  const cost = costs.reduce<number>((sum, each) => sum + (each ?? 0), 0);
  return [
    `${formatPlural(runs.length, 'run')}: ${states.join(', ') || 'none'}`,
    `${formatBytes(storedBytes)} stored${unknownCount === 0 ? '' : `, and ${unknownCount} unknown`}`,
    ...(prices === null ? [] : [`${cost.toFixed(2)} ${prices.currency}/month`]),
  ].join('   ');
}

function* problemLines(runs: readonly RunSummary[], table: RunsTable): Iterable<string> {
  const problems = runs.filter(({ problem }) => problem !== null);
  for (const run of problems.slice(0, PROBLEMS_MAX)) {
    const { code = '', message = '' } = run.problem ?? {};
    yield `${table.style('red', run.state)}  ${nameText(run, table)}: ${printable(message)} (${code})`;
  }
  if (problems.length > PROBLEMS_MAX)
    yield `and ${formatPlural(problems.length - PROBLEMS_MAX, 'problem')} more; --json has all of them`;
}
