/** Draws progress on a terminal, as lines. Pure. */

import stringWidth from 'fast-string-width';
import {
  formatCount,
  formatPlural,
  formatRate,
  formatRoughDuration,
  formatShare,
  formatWriters,
  printable,
} from '../format.ts';
import type { FileProgress, Pace, ProgressState } from './progress-state.ts';

export interface Screen {
  readonly columns: number;
  readonly rows: number;
}

const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'] as const;

/** A bar of `width` columns, exact to an eighth of one, padded with spaces. */
export function renderBar(fraction: number, width: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, fraction)) * width * 8);
  const bar = '█'.repeat(Math.floor(eighths / 8)) + EIGHTHS[eighths % 8];
  return bar + ' '.repeat(width - bar.length);
}

/** Lines that are redrawn in place. They are no wider than the screen, and fewer than its rows. */
export function renderBars(state: ProgressState, verb: string, nowMs: number, screen: Screen): string[] {
  const lines = linesOf(state, verb, nowMs, screen);
  return lines.map((line) => cut(line, screen.columns - 1));
}

function linesOf(state: ProgressState, verb: string, nowMs: number, screen: Screen): string[] {
  switch (state.phase) {
    case 'starting':
      return startingLine(state, nowMs);
    case 'transferring':
      return transferLines(state, verb, nowMs, screen);
    case 'waiting':
      return [waitingLine(state)];
    case 'ended':
      return [];
  }
}

const SILENCE_MS = 2000;

// A store that answers at once needs no line.
function startingLine(state: ProgressState, nowMs: number): string[] {
  const silentMs = nowMs - state.beganAtMs;
  return silentMs < SILENCE_MS ? [] : [`  waiting for the store   ${formatRoughDuration(silentMs)}`];
}

function waitingLine(state: ProgressState): string {
  if (state.missingWriters.length === 0) return '  committing';
  const count = state.writer === null ? '' : ` of ${state.writer.count}`;
  return `  waiting for ${formatWriters(state.missingWriters)}${count}   ${formatRoughDuration(state.waitedMs)}`;
}

function transferLines(state: ProgressState, verb: string, nowMs: number, screen: Screen): string[] {
  const room = Math.max(1, Math.min(8, screen.rows - 4));
  const files = chooseFiles([...state.files.values()], room);
  const nameWidth = Math.min(
    Math.max(...files.map((file) => stringWidth(printable(file.name)))),
    Math.max(12, screen.columns - 68),
  );
  const barWidth = screen.columns >= 88 ? 24 : 12;
  const lines = files.map((file) => fileLine(file, { nameWidth, barWidth }, nowMs));
  return [...lines, totalLine(state, verb, nowMs)];
}

/** All files if there is room; otherwise the active ones, oldest first. */
function chooseFiles(files: FileProgress[], room: number): FileProgress[] {
  if (files.length <= room) return files;
  const underWay = files.filter((file) => file.startedAtMs !== null && !file.isDone);
  return underWay.sort((a, b) => (a.startedAtMs as number) - (b.startedAtMs as number)).slice(0, room);
}

function fileLine(
  file: FileProgress,
  layout: { nameWidth: number; barWidth: number },
  nowMs: number,
): string {
  const name = fitName(printable(file.name), layout.nameWidth);
  const fraction = file.totalBytes === 0 ? Number(file.isDone) : file.doneBytes / file.totalBytes;
  const share = formatShare(file.doneBytes, file.totalBytes).padStart(17);
  const pace = file.isDone ? 'done' : paceText(file.pace, file.totalBytes - file.doneBytes, nowMs);
  return `  ${name}   ${renderBar(fraction, layout.barWidth)}   ${share}   ${pace}`;
}

function totalLine(state: ProgressState, verb: string, nowMs: number): string {
  const parts = [
    `${verb} ${formatShare(state.doneBytes, state.totalBytes)}`,
    ...(state.fileCount > 1
      ? [`${formatCount(state.doneFiles)} of ${formatPlural(state.fileCount, 'file')}`]
      : []),
    paceText(state.pace, state.totalBytes - state.doneBytes, nowMs)
      .replace(/\s{2,}/, ' · ')
      .trim(),
    ...(state.retries > 0 ? [`${formatPlural(state.retries, 'request')} repeated`] : []),
  ];
  return `  ${parts.filter((part) => part !== '').join(' · ')}`;
}

/** `412 MiB/s   17 s left`. */
export function paceText(pace: Pace, leftBytes: number, nowMs: number): string {
  const rate = pace.bytesPerSecond(nowMs);
  if (rate === null) return '';
  const left =
    leftBytes > 0 ? `   ${formatRoughDuration(Math.max(1000, (leftBytes / rate) * 1000))} left` : '';
  return `${formatRate(rate).padStart(10)}${left}`;
}

/** Exactly `width` columns. A long name keeps its end, which tells more than its beginning. */
function fitName(text: string, width: number): string {
  const missing = width - stringWidth(text);
  if (missing >= 0) return text + ' '.repeat(missing);
  const characters = [...text];
  while (stringWidth(characters.join('')) > width - 1) characters.shift();
  const end = `…${characters.join('')}`;
  return end + ' '.repeat(Math.max(0, width - stringWidth(end)));
}

function cut(line: string, width: number): string {
  if (stringWidth(line) <= width) return line;
  const characters = [...line];
  while (characters.length > 0 && stringWidth(characters.join('')) > width - 1) characters.pop();
  return `${characters.join('')}…`;
}
