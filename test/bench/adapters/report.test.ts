import { expect, test } from 'vitest';
import { isMet } from '../results.ts';
import { GIB } from '../s3/shapes.ts';
import { type Action, ADAPTERS, type Client } from './adapters.ts';
import { type AdapterReport, chartsOf, markdownOf, verdictsOf } from './report.ts';
import type { AdapterRun } from './series.ts';

const ADAPTER = ADAPTERS.find(({ name }) => name === 'azure') ?? ADAPTERS[0]!;

function run(client: Client, action: Action, callCpuMs: number, round = 0): AdapterRun {
  const counted = { serverCpuMs: 500, connections: 8, requests: 100, checksumHeaders: [] };
  return {
    adapter: 'azure',
    client,
    action,
    round,
    sizeBytes: 2 * GIB,
    callMs: 1000,
    callCpuMs,
    ...counted,
  };
}

function reportOf(runs: AdapterRun[]): AdapterReport {
  const failure = { adapter: 'azure', client: 'SDK' as const, message: 'first line\nError: it broke\n' };
  return { conditions: 'here', adapters: [ADAPTER], sizes: [2 * GIB], runs, failures: [failure] };
}

test('verdicts: ours against node:http of the same round, and the SDK against ours', () => {
  const verdicts = verdictsOf(
    reportOf([
      run('holdfast', 'upload', 1200),
      run('holdfast', 'upload', 3000, 1),
      run('node:http', 'upload', 1000),
      run('node:http', 'upload', 2000, 1),
      run('SDK', 'upload of a file', 1500),
      run('holdfast', 'upload of a file', 1000),
    ]),
  );
  expect(verdicts.map(({ values }) => values)).toEqual([[1.2, 1.5], [1.5]]);
  expect(verdicts.map(({ wanted }) => wanted)).toEqual([{ atMost: 1.4 }, { atLeast: 2 }]);
  expect(verdicts.map(isMet)).toEqual([true, false]);
  expect(verdicts[1]?.what).toContain('uploadFile / Holdfast');
});

test('the report tells CPU per GiB, whose call it was and what failed', () => {
  const report = reportOf([run('holdfast', 'download', 1000), run('node:http', 'download', 800)]);
  const markdown = markdownOf(report);
  expect(markdown).toContain(
    '| download | **holdfast** | 1.00 [1.00–1.00] | 0.50 [0.50–0.50] | 0.25 [0.25–0.25] | 8 [8–8] | 100 [100–100] |',
  );
  expect(markdown).toContain('- azure, SDK: Error: it broke');
  const [[name, svg] = ['', '']] = Object.entries(chartsOf(report));
  expect(markdown).toContain(`(${name})`);
  expect(svg).toContain('download: client CPU, s/GiB');
});
