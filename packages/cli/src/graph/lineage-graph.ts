/** The history of a run as a picture: versions, attempts, fences and rollbacks. Pure. */

import {
  type CheckpointId,
  type CheckpointSummary,
  checkpointName,
  type LogEntry,
} from '@holdfast/core/contract';
import { formatAge, formatBytes, printable } from '../format.ts';
import { stateText } from '../state-text.ts';
import type { Style } from '../style.ts';

export interface Lineage {
  /** Newest first. */
  readonly checkpoints: readonly CheckpointSummary[];
  /** Newest first, as far back as the catalog keeps them. */
  readonly entries: readonly LogEntry[];
  /** Older checkpoints were left out. */
  readonly isCut: boolean;
}

interface Paper {
  readonly nowMs: number;
  readonly style: Style;
}

/** Decisions that change who may write, or what a restart loads. */
const SHOWN_KINDS = ['takeover', 'register', 'rollback', 'quarantine', 'undelete', 'rebuild'];

type Item =
  | { readonly kind: 'checkpoint'; readonly checkpoint: CheckpointSummary }
  | { readonly kind: 'decision'; readonly entry: LogEntry };

/**
 * Newest first. The path to the latest is the leftmost line. A rollback opens a line beside it for
 * the versions that it left behind; that line ends at the version that the rollback went back to.
 */
export function* lineageLines(lineage: Lineage, paper: Paper): Iterable<string> {
  /** For each open line beside the path, the id of the checkpoint at which it ends. */
  const open: string[] = [];
  const bars = (count: number) => '│ '.repeat(count);
  for (const item of itemsOf(lineage)) {
    if (item.kind === 'decision') {
      const { entry } = item;
      yield `${bars(open.length)}├─ ${decisionText(entry, paper)}`;
      const [target] = entry.checkpoints;
      if (entry.kind === 'rollback' && target !== undefined) open.push(keyOf(target));
      continue;
    }
    const { checkpoint } = item;
    // A checkpoint on the path ends all lines beside it, also those whose end was removed since.
    while (open.length > 0 && (!checkpoint.isLeftBehind || open.at(-1) === keyOf(checkpoint.id))) {
      open.pop();
      yield `${bars(open.length)}├─╯`;
    }
    // The log no longer has the rollback that left it behind.
    const isAside = checkpoint.isLeftBehind && open.length === 0;
    yield `${bars(isAside ? 1 : open.length)}${checkpointText(checkpoint, paper)}`;
  }
  yield* ending(lineage, bars(open.length));
}

/**
 * Checkpoints and decisions in the order of the catalog. A checkpoint whose commit is no longer in
 * the log is older than all decisions of the log.
 */
function itemsOf({ checkpoints, entries }: Lineage): Item[] {
  const byId = new Map(checkpoints.map((checkpoint) => [keyOf(checkpoint.id), checkpoint]));
  const items: Item[] = [];
  for (const entry of entries) {
    const [id] = entry.checkpoints;
    const committed = entry.kind === 'commit' && id !== undefined ? byId.get(keyOf(id)) : undefined;
    if (committed !== undefined) {
      items.push({ kind: 'checkpoint', checkpoint: committed });
      byId.delete(keyOf(committed.id));
    } else if (SHOWN_KINDS.includes(entry.kind)) items.push({ kind: 'decision', entry });
  }
  for (const checkpoint of byId.values()) items.push({ kind: 'checkpoint', checkpoint });
  return items;
}

function checkpointText(checkpoint: CheckpointSummary, { nowMs, style }: Paper): string {
  const { id, isLeftBehind, committedAtMs, sizeBytes } = checkpoint;
  const name = checkpointName(id, isLeftBehind);
  const state = stateText(checkpoint, new Map(), true);
  const marked = checkpoint.isLatest ? style('green', '●') : markOf(checkpoint);
  const text = `${marked} ${style('bold', name)}   ${formatAge(committedAtMs, nowMs)}   ${formatBytes(sizeBytes)}`;
  return state === '' ? text : `${text}   ${state}`;
}

function markOf({ state, isLeftBehind }: CheckpointSummary): string {
  if (state === 'quarantined') return '✗';
  return isLeftBehind || state === 'retiring' ? '○' : '●';
}

function decisionText(entry: LogEntry, { nowMs, style }: Paper): string {
  const { kind, lineage, epoch, attempt, reason, process, atMs } = entry;
  const [target] = entry.checkpoints;
  const why = reason === '' ? '' : `: ${printable(reason)}`;
  const what = {
    takeover: `attempt ${printable(shorten(attempt))} owns the run: epoch ${epoch}${epoch > 1 ? `, fences epoch ${epoch - 1}` : ''}`,
    register: 'a writer was restarted; its former life is fenced',
    rollback: `rollback to ${target === undefined ? '?' : target.version}: lineage ${lineage} begins${why}`,
  }[kind];
  const names = entry.checkpoints.map(({ version }) => version).join(', ');
  const text = what ?? `${kind} ${names}${why}`;
  const by = process.host === '' ? '' : `   ${printable(process.host)}:${process.pid}`;
  return style('dim', `${text}   ${formatAge(atMs, nowMs)}${by}`);
}

function keyOf({ lineage, epoch, version }: CheckpointId): string {
  return `${lineage}.${epoch}.${version}`;
}

/** A random attempt id is 128 bits of hex: its beginning identifies it. */
function shorten(attempt: string): string {
  return attempt.startsWith('drawn-') ? `${attempt.slice(0, 'drawn-'.length + 8)}…` : attempt;
}

function* ending({ entries, isCut }: Lineage, bars: string): Iterable<string> {
  if (isCut) yield `${bars}┆ older versions: --limit shows more`;
  const oldest = entries.at(-1);
  if (oldest !== undefined && oldest.seq > 1)
    yield `${bars}┆ the catalog keeps no decisions before number ${oldest.seq}`;
}
