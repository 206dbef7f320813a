import { expect, test } from 'vitest';
import type { LoadedModules } from '../e2e/loaded-modules.ts';
import { isMet } from './results.ts';
import { startVerdicts } from './start.ts';

function started(
  name: string,
  wallMs: number,
  loaded?: Partial<LoadedModules>,
  { store, local }: { store?: string; local?: string } = {},
) {
  const none = { packages: [], stores: [], sdks: [], costly: [], onDemand: [] };
  const modules = loaded && { ...none, ...loaded };
  const costs = [{ wallMs, userMs: wallMs / 2, systemMs: 1, peakRssBytes: 1 }];
  return { name, store, local, costs, loaded: modules };
}

test('an idle start is held to its time and loads no store; an open store loads its own and no other', () => {
  const verdicts = startVerdicts([
    started('Node alone', 1000),
    started('--version', 151, {}),
    started('--help', 10, { stores: ['store-s3'], sdks: ['store-s3'] }),
    started('latest s3://', 1000, { stores: ['store-s3'], sdks: ['store-s3'] }, { store: 'store-s3' }),
    started('latest gs://', 1000, { stores: ['store-gcs'], sdks: ['store-s3'] }, { store: 'store-gcs' }),
  ]);
  expect(verdicts.map((verdict) => [verdict.what, isMet(verdict)])).toEqual([
    ['--version: wall time, ms', false],
    ['--version: adapters and SDKs loaded', true],
    ['--help: wall time, ms', true],
    ['--help: adapters and SDKs loaded (store-s3)', false],
    ['latest s3://: adapters and SDKs loaded beside its own', true],
    ['latest gs://: adapters and SDKs loaded beside its own (store-s3)', false],
  ]);
});

test('a command on a cloud costs at most 1.3 times what it costs on a local directory', () => {
  const modules = { stores: [], sdks: [] };
  const verdicts = startVerdicts([
    started('save file://', 100, modules, { store: 'store-local' }),
    started('save s3://', 130.5, modules, { store: 'store-s3', local: 'save file://' }),
  ]);
  expect(verdicts.map((verdict) => [verdict.what, isMet(verdict)])).toEqual([
    ['save file://: adapters and SDKs loaded beside its own', true],
    ['save s3://: adapters and SDKs loaded beside its own', true],
    ['save s3://: CPU / save file://', true],
    ['save s3://: wall time / save file://', false],
  ]);
});
