/** The progress as one plain line for a log; empty if nothing is in progress. Pure. */

import { formatPlural, formatRoughDuration, formatShare, formatWriters } from '../format.ts';
import type { ProgressState } from './progress-state.ts';
import { paceText } from './render-bars.ts';

export function renderLine(state: ProgressState, verb: string, nowMs: number): string {
  if (state.phase === 'ended') return '';
  const version = state.version === null ? '' : `version ${state.version}   `;
  if (state.phase === 'waiting') {
    if (state.missingWriters.length === 0) return `${version}committing`;
    return `${version}waiting for ${formatWriters(state.missingWriters)}   ${formatRoughDuration(state.waitedMs)}`;
  }
  if (state.phase === 'starting')
    return `${version}waiting for the store   ${formatRoughDuration(nowMs - state.beganAtMs)}`;
  const percent =
    state.totalBytes === 0 ? '' : ` (${Math.floor((state.doneBytes * 100) / state.totalBytes)}%)`;
  const parts = [
    `${verb} ${formatShare(state.doneBytes, state.totalBytes)}${percent}`,
    state.fileCount > 1 ? `${state.doneFiles} of ${formatPlural(state.fileCount, 'file')}` : '',
    paceText(state.pace, state.totalBytes - state.doneBytes, nowMs).trim(),
    state.retries > 0 ? `${formatPlural(state.retries, 'request')} repeated` : '',
  ];
  return version + parts.filter((part) => part !== '').join('   ');
}
