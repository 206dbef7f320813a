/** `bench retention`: measures how long a plan takes for many checkpoints. */

import { parseArgs } from 'node:util';
import type { CatalogCheckpoint, State } from '@holdfast/core/internal/format/index';
import { planRetention } from '@holdfast/core/internal/plan/retention';
import { policyRecord } from '@holdfast/core/internal/plan/retention-policy';
import { EMPTY_STATE } from '@holdfast/core/internal/plan/state';
import { positive, say } from './options.ts';
import { summarize } from './statistics.ts';

const MINUTE_MS = 60_000;
const COUNT = 10_000;
const LIMIT_MS = 100;

/** All rules at once, which is the most work. */
const POLICY = policyRecord({
  keepLast: 10,
  keepEvery: 1000,
  keepEveryMs: 60 * MINUTE_MS,
  keepForMs: 24 * 60 * MINUTE_MS,
  keepBest: [
    { metric: 'loss', mode: 'min', count: 10 },
    { metric: 'accuracy', mode: 'max', count: 10 },
  ],
});

/** Prints the times. Resolves to false if a plan for 10,000 versions exceeds its limit. */
export async function benchRetention(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '21' },
    },
  });
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const state = stateOf(COUNT);
  const timesMs = Array.from({ length: rounds }, () => {
    const startMs = performance.now();
    planRetention(state, POLICY, COUNT * MINUTE_MS);
    return performance.now() - startMs;
  });
  const { median, max } = summarize(timesMs);
  say(
    `a plan for ${COUNT} versions, all rules: ${median.toFixed(1)} ms (median of ${rounds}), at most ${max.toFixed(1)} ms; limit ${LIMIT_MS} ms`,
  );
  return median <= LIMIT_MS;
}

/** One checkpoint a minute. Some of them are verified, rolled back or pinned. */
function stateOf(count: number): State {
  const checkpoints = Array.from(
    { length: count },
    (_, version): CatalogCheckpoint => ({
      id: { lineage: 1, epoch: 1, version: BigInt(version) },
      manifestKey: '',
      manifestSha256: new Uint8Array(32),
      sizeBytes: 1000,
      storedBytes: 1000,
      annotatedMetadata: {},
      fileCount: 1,
      metrics: { loss: Math.sin(version), accuracy: Math.cos(version) },
      state: 'LIVE',
      retiringSeq: 0,
      retiringAtMs: 0,
      graceMs: 0,
      pins: version % 500 === 0 ? ['kept'] : [],
      verified: version % 3 === 0,
      suspect: false,
      reason: '',
      committedAtMs: version * MINUTE_MS,
      bases: [],
      rolledBack: version % 100 === 99,
    }),
  );
  return { ...EMPTY_STATE, checkpoints, latest: checkpoints.at(-2)?.id };
}
