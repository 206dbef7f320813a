/** The picture of a run that was taken over, rolled back twice, and lost its log. */

import type { CheckpointSummary, LogEntry } from '@holdfast/core/contract';
import { describe, expect, test } from 'vitest';
import { asJson, cli } from '../in-process.ts';
import { plainStyle } from '../style.ts';
import { lineageLines } from './lineage-graph.ts';

const NOW_MS = 1_000_000_000;

function checkpoint(
  lineage: number,
  version: number,
  more: Partial<CheckpointSummary> = {},
): CheckpointSummary {
  const id = { lineage, epoch: 1, version: BigInt(version) };
  return {
    ...{ id, version: id.version, manifestKey: 'manifest' },
    ...{ sizeBytes: 1024, storedBytes: 1024, bases: [], fileCount: 1, metrics: {} },
    ...{ state: 'live', isLatest: false, pins: [], isVerified: false, isSuspect: false, isLeftBehind: false },
    ...{ reason: '', committedAtMs: NOW_MS - 60_000, graceUntilMs: null, graceLeftMs: null },
    ...more,
  };
}

function entry(seq: number, kind: string, more: Partial<LogEntry> = {}): LogEntry {
  const process = { host: 'node', pid: 7 };
  return {
    ...{ seq, kind, checkpoints: [], versionCount: 0, lineage: 1, epoch: 1 },
    ...{ attempt: 'job', copyOf: null, reason: '', process },
    ...{ atMs: NOW_MS - 60_000, ...more },
  };
}

/** The lines without the facts behind names. */
function picture(checkpoints: readonly CheckpointSummary[], entries: readonly LogEntry[], isCut = false) {
  const lines = lineageLines({ checkpoints, entries, isCut }, { nowMs: NOW_MS, style: plainStyle });
  return [...lines].map((line) => line.split('   ')[0]);
}

const left = { isLeftBehind: true };

describe('lineageLines', () => {
  test('a rollback inside what another rollback left behind: each line ends at its target', () => {
    const ids = {
      a: checkpoint(1, 100),
      b: checkpoint(1, 200, left),
      c: checkpoint(1, 300, left),
      d: checkpoint(2, 300, left),
      e: checkpoint(3, 200, { isLatest: true }),
    };
    const commit = (seq: number, of: CheckpointSummary) => entry(seq, 'commit', { checkpoints: [of.id] });
    const entries = [
      commit(9, ids.e),
      entry(8, 'rollback', { checkpoints: [ids.a.id], lineage: 3, reason: 'loss' }),
      commit(7, ids.d),
      entry(6, 'rollback', { checkpoints: [ids.b.id], lineage: 2 }),
      commit(5, ids.c),
      entry(4, 'pin'),
      commit(3, ids.b),
      commit(2, ids.a),
      entry(1, 'takeover'),
    ];
    expect(picture([ids.e, ids.d, ids.c, ids.b, ids.a], entries)).toEqual([
      '● 200',
      '├─ rollback to 100: lineage 3 begins: loss',
      '│ ○ 300@2',
      '│ ├─ rollback to 200: lineage 2 begins',
      '│ │ ○ 300@1',
      '│ ├─╯',
      '│ ○ 200@1',
      '├─╯',
      '● 100',
      '├─ attempt job owns the run: epoch 1',
    ]);
  });

  test('the target of a rollback was removed: an older checkpoint of the path ends the line', () => {
    const [a, c, d] = [checkpoint(1, 1), checkpoint(1, 3, left), checkpoint(2, 3)];
    const gone = { lineage: 1, epoch: 1, version: 2n };
    const entries = [
      entry(9, 'commit', { checkpoints: [d.id] }),
      entry(8, 'rollback', { checkpoints: [gone], lineage: 2 }),
      entry(7, 'takeover', { epoch: 2 }),
    ];
    expect(picture([d, c, a], entries)).toEqual([
      '● 3',
      '├─ rollback to 2: lineage 2 begins',
      '│ ├─ attempt job owns the run: epoch 2, fences epoch 1',
      '│ ○ 3@1',
      '├─╯',
      '● 1',
      '┆ the catalog keeps no decisions before number 7',
    ]);
  });

  test('without a log, left behind checkpoints are beside the path, and nothing is claimed of how', () => {
    const found = [checkpoint(2, 3, { state: 'quarantined' }), checkpoint(1, 3, left), checkpoint(1, 1)];
    expect(picture(found, [], true)).toEqual([
      '✗ 3',
      '│ ○ 3@1',
      '● 1',
      '┆ older versions: --limit shows more',
    ]);
  });
});

test('show --graph draws a real run', async () => {
  const uri = 'memory://graph';
  const save = (version: number) =>
    cli('save', import.meta.filename, uri, '--version', `${version}`, '--attempt', `job-${version}`);
  for (const version of [1, 2]) await save(version);
  expect((await cli('rollback', uri, '--to', '1', '--reason', 'diverged')).code).toBe(0);
  await save(3);
  const { code, stdout } = await cli('show', uri, '--graph');
  expect(code).toBe(0);
  expect(stdout.split('\n').map((line) => line.split('   ')[0])).toEqual([
    '● 3',
    '├─ attempt job-3 owns the run: epoch 3, fences epoch 2',
    '├─ rollback to 1: lineage 2 begins: diverged',
    '│ ○ 2@1',
    '│ ├─ attempt job-2 owns the run: epoch 2, fences epoch 1',
    '├─╯',
    '● 1',
    '├─ attempt job-1 owns the run: epoch 1',
    '',
  ]);
  const { checkpoints, entries } = await asJson('show', uri, '--graph', '--limit', '2');
  expect(checkpoints.map(({ version }: { version: number }) => version)).toEqual([3, 2]);
  expect(entries[0].kind).toBe('commit');
});

test.each([
  [['--graph', '--version', '1'], '--graph cannot be combined with --version'],
  [['--limit', '3'], '--limit needs --graph'],
  [['--graph', '--limit', '0'], '"0" is not a whole number from 1'],
])('show %j is refused', async (options, message) => {
  const { code, stderr } = await cli('show', 'memory://graph', ...options);
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
});
