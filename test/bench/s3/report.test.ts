import { expect, test } from 'vitest';
import { chartOf, gist, markdownOf, type Report } from './report.ts';
import { callCost, type Run } from './rounds.ts';
import { parseShape } from './shapes.ts';

const LARGE = parseShape('2x512MiB');
const SMALL = parseShape('1000x1KiB');

function run(given: Partial<Run>): Run {
  return {
    peer: 'holdfast',
    shape: LARGE.name,
    action: 'upload',
    round: 0,
    wallMs: 1000,
    userMs: 300,
    systemMs: 200,
    peakRssBytes: 100 * 1024 ** 2,
    callMs: 900,
    callCpuMs: 400,
    serverCpuMs: null,
    connections: null,
    requests: null,
    checksumHeaders: [],
    ...given,
  };
}

function reportOf(runs: Run[], failures: Report['failures'] = []): Report {
  const checksums = { holdfast: { up: 'CRC32C', down: 'verified' }, other: { up: 'MD5', down: 'none' } };
  return { title: 'MinIO', conditions: 'here', shapes: [LARGE, SMALL], runs, failures, checksums };
}

function lines(runs: Run[]): string[] {
  return markdownOf(reportOf(runs), (shape) => `${shape.name}.svg`).split('\n');
}

test('markdownOf: the fastest comes first, CPU is user and system per GiB, and a call that was not measured is a dash', () => {
  const table = lines([
    run({ wallMs: 3000 }),
    run({ wallMs: 1000, userMs: 500, systemMs: 500 }),
    run({ peer: 'other', wallMs: 500, callMs: null, callCpuMs: null }),
  ]).filter((line) => line.startsWith('|'));
  expect(table).toEqual([
    '| client | wall s | of it, the call | client CPU s/GiB | of it, the call | peak RSS MiB | checksum |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    '| other | 0.50 [0.50–0.50] | – | 0.50 [0.50–0.50] | – | 100 [100–100] | MD5 |',
    '| **holdfast** | 2.00 [1.00–3.00] | 0.90 [0.90–0.90] | 0.75 [0.50–1.00] | 0.40 [0.40–0.40] | 100 [100–100] | CRC32C |',
  ]);
});

test('markdownOf: small files are told per file, and what a server counts has columns where it counts', () => {
  const [head, , row] = lines([
    run({ shape: SMALL.name, action: 'download to disk', serverCpuMs: 250, connections: 8 }),
  ]).filter((line) => line.startsWith('|'));
  expect(head).toContain('client CPU ms/file');
  expect(head).toContain('connections');
  expect(head).not.toContain('requests');
  expect(row).toContain('| 0.50 [0.50–0.50] |');
  expect(row).toContain('| 0.25 [0.25–0.25] | 8 [8–8] | verified |');
});

test('markdownOf: the cost of one file counts its bytes alone', () => {
  const action = 'download of one file to disk';
  const row = lines([run({ action, userMs: 250, systemMs: 250 })]).find((line) =>
    line.includes('**holdfast**'),
  );
  expect(row).toContain('| 1.00 [1.00–1.00] |');
});

test('markdownOf: a failure is told with the line that says most', () => {
  const failures = [
    { peer: 'other', shape: LARGE.name, round: 1, message: 'it ended with 1: Traceback\nAccess error\n' },
  ];
  const text = markdownOf(reportOf([], failures), () => 'x.svg');
  expect(text).toContain('- other, 2x512MiB, round 2: Access error');
  expect(gist('nothing to see')).toBe('nothing to see');
});

test('chartOf: a pair of panels for each action, a bar for each peer in both', () => {
  const svg = chartOf(
    reportOf([run({}), run({ peer: 'other' }), run({ action: 'download to tmpfs' })]),
    LARGE,
  );
  expect(svg.match(/class="panel"/g)).toHaveLength(4);
  expect(svg.match(/<rect class="bar"/g)).toHaveLength(2);
  expect(svg.match(/<rect class="ours"/g)).toHaveLength(4);
});

test('callCost: from the last line of a driver; other programs print none', () => {
  expect(callCost('note\n{"callMs": 12.5, "callCpuMs": 3}\n')).toEqual({ callMs: 12.5, callCpuMs: 3 });
  expect(callCost('copied 3 files\n')).toEqual({ callMs: null, callCpuMs: null });
});
