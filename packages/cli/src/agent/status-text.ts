/** `holdfast agent status` for people. */

import type { StatusView, WriterView } from '@holdfast/agent';
import { formatBytes, formatDuration, formatShare } from '../format.ts';
import type { Style } from '../style.ts';
import { type Column, renderTable } from '../table.ts';

type SaveView = WriterView['saves'][number];

const COLUMNS: readonly Column[] = [
  { title: 'RUN', align: 'left' },
  { title: 'WRITER', align: 'left' },
  { title: 'PROCESS', align: 'left' },
  { title: 'VERSION', align: 'right' },
  { title: 'STATE', align: 'left' },
  { title: 'DURABILITY', align: 'left' },
  { title: 'BYTES', align: 'left' },
];

/** One line for each save in progress, and for the last one that ended if there is no other. */
export function statusText(status: StatusView, style: Style): string {
  const { version, pid, uptimeMs, isStopping, writers, newest, memory, stage } = status;
  const { saveBytesPerSecondMax: limit } = status;
  const lines = [
    `agent ${version}   process ${pid}   up ${formatDuration(uptimeMs)}${isStopping ? '   stopping' : ''}`,
    `stage ${stage.directory}   ${roomOf(stage)}`,
    `memory for transfers   ${formatShare(memory.usedBytes, memory.totalBytes)} in use`,
    // An agent of an older version does not tell its limit.
    ...(limit == null ? [] : [`limit of all saves     ${formatBytes(limit)}/s`]),
  ];
  const rows = writers.flatMap(rowsOf);
  if (rows.length === 0) lines.push('no writers');
  else {
    const [titles, ...table] = renderTable(COLUMNS, rows);
    lines.push('', style('bold', titles as string), ...table, ...writers.flatMap(errorsOf), '');
  }
  for (const one of newest) lines.push(`committed   ${one.uri}   version ${one.version}`);
  return lines.join('\n').trimEnd();
}

function shownOf({ saves }: WriterView): readonly SaveView[] {
  const inProgress = saves.filter(({ state }) => UNDER_WAY.has(state));
  return inProgress.length > 0 ? inProgress : saves.slice(0, 1);
}

const UNDER_WAY: ReadonlySet<string> = new Set(['open', 'accepted', 'uploading', 'delivered']);

function rowsOf(writer: WriterView): string[][] {
  const { uri, index, count, pid, isConnected } = writer;
  const own = [uri, `${index} of ${count}`, `${pid}${isConnected ? '' : ', gone'}`];
  const shown = shownOf(writer);
  if (shown.length === 0) return [[...own, '', 'no save yet', '', '']];
  return shown.map((save) => [...own, save.version, stateOf(save), save.durability, bytesOf(save)]);
}

function stateOf({ state, missingWriters }: SaveView): string {
  const shown = state === 'outcomeUnknown' ? 'outcome unknown' : state;
  return missingWriters.length === 0 ? shown : `${shown}, without writer ${missingWriters.join(', ')}`;
}

function bytesOf({ state, doneBytes, sizeBytes }: SaveView): string {
  return state === 'committed' ? formatBytes(sizeBytes) : formatShare(doneBytes, sizeBytes);
}

function errorsOf(writer: WriterView): string[] {
  return shownOf(writer).flatMap(({ version, error }) =>
    error === null ? [] : [`writer ${writer.index}, version ${version}: ${error.message} (${error.code})`],
  );
}

function roomOf({ kind, reason, freeBytes }: StatusView['stage']): string {
  return kind === 'none' ? `none: ${reason}` : `${kind}, ${formatBytes(freeBytes)} free`;
}
