import { expect, test } from 'vitest';
import type { LoadedModules } from '../e2e/loaded-modules.ts';
import { isMet } from './results.ts';
import { startVerdicts } from './start.ts';

function started(name: string, wallMs: number, loaded?: Partial<LoadedModules>, store?: string) {
  const modules = loaded && { packages: [], stores: [], sdks: [], ...loaded };
  return { name, store, costs: [{ wallMs, userMs: 1, systemMs: 1, peakRssBytes: 1 }], loaded: modules };
}

test('an idle start is held to its time and loads no store; an open store loads its own and no other', () => {
  const verdicts = startVerdicts([
    started('Node alone', 1000),
    started('--version', 151, {}),
    started('--help', 10, { stores: ['store-s3'], sdks: ['store-s3'] }),
    started('latest s3://', 1000, { stores: ['store-s3'], sdks: ['store-s3'] }, 'store-s3'),
    started('latest gs://', 1000, { stores: ['store-gcs'], sdks: ['store-s3'] }, 'store-gcs'),
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
