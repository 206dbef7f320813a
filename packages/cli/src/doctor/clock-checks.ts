/** Compares the store's clock with this machine's. No guarantee depends on a clock. */

import { CheckpointError } from '@holdfast/core/contract';
import type { PatientClient } from '@holdfast/testkit';
import { formatBriefDuration } from '../format.ts';
import type { Check, Outcome } from './check.ts';
import type { Probe } from './probe.ts';

const SAMPLES = 5;
const SKEW_MS_MAX = 60_000;
/** Both times that are compared may be rounded to whole seconds, so each is up to a second off. */
const OBJECT_SKEW_MS_MAX = 2000;

export const clockChecks: readonly Check[] = [
  {
    id: 'clock',
    title: 'clock',
    needs: ['may-create', 'may-list'],
    meaning: 'the clocks cannot be compared',
    advice: 'nothing to do: no decision about a checkpoint depends on a clock',
    isAboutComfort: true,
    run: compareClocks,
  },
];

interface Sample {
  /** The store's clock minus ours; positive: the store is ahead. */
  readonly skewMs: number;
  /** Largest possible error of the measurement. */
  readonly errorMs: number;
}

async function compareClocks(probe: Probe): Promise<Outcome> {
  const client = await probe.client();
  let best: Sample | null = null;
  for (let n = 0; n < SAMPLES; n += 1) {
    const sample = await takeSample(probe, client);
    if (best === null || sample.errorMs < best.errorMs) best = sample;
  }
  const { skewMs, errorMs } = best as Sample;
  const isSame = Math.abs(skewMs) <= errorMs;
  const side = skewMs > 0 ? 'ahead of' : 'behind';
  const bar = `± ${formatBriefDuration(errorMs)}`;
  const seen = isSame
    ? `the same as here (${bar})`
    : `${formatBriefDuration(Math.abs(skewMs))} ${side} this machine (${bar})`;
  const figures = { skewMs: Math.round(skewMs), errorMs: Math.round(errorMs) };
  const { aheadMs, isSame: isOneClock } = await compareAnswers(probe, client);
  if (!isOneClock) return { seen: twoClocks(aheadMs), figures, concern: TWO_CLOCKS };
  if (Math.abs(skewMs) - errorMs <= SKEW_MS_MAX) return { seen, figures };
  return {
    seen,
    figures,
    concern: {
      meaning:
        'checkpoints are safe, but ages are shown wrong, and S3 refuses requests that are off by 15 minutes',
      advice: 'synchronise the clock of this machine, or that of the store',
    },
  };
}

async function takeSample({ clock, prefix }: Probe, client: PatientClient): Promise<Sample> {
  const sentAtMs = clock.nowMs();
  const beganMs = clock.monotonicMs();
  const page = await client.firstPage(prefix);
  const roundTripMs = clock.monotonicMs() - beganMs;
  if (page === null) throw new CheckpointError('Unexpected', 'the listing had no page, so it showed no time');
  const { storeTimeMs } = page;
  // HTTP dates have whole seconds, other times milliseconds.
  const cutMs = storeTimeMs % 1000 === 0 ? 1000 : 1;
  return {
    skewMs: storeTimeMs + cutMs / 2 - (sentAtMs + roundTripMs / 2),
    errorMs: roundTripMs / 2 + cutMs / 2,
  };
}

const TWO_CLOCKS = {
  meaning: 'checkpoints are safe, but ages are shown wrong, and rules by age count by the wrong clock',
  advice: 'look for a proxy that changes the header `Date` of answers, and configure it not to',
};

function twoClocks(aheadMs: number): string {
  const side = aheadMs > 0 ? 'ahead of' : 'behind';
  return `answers are ${formatBriefDuration(Math.abs(aheadMs))} ${side} the times of objects`;
}

/**
 * Creates an object and lists it. `aheadMs`: the time of the listing minus the object's creation
 * time. `isSame`: the difference is no larger than one clock explains.
 */
async function compareAnswers(
  probe: Probe,
  client: PatientClient,
): Promise<{ aheadMs: number; isSame: boolean }> {
  const key = probe.key('now');
  const beganMs = probe.clock.monotonicMs();
  await client.create(key, new Uint8Array(1));
  const page = await client.firstPage(key);
  const tookMs = probe.clock.monotonicMs() - beganMs;
  const object = page?.objects.find((each) => each.key === key);
  if (!page || !object) throw new CheckpointError('Unexpected', 'an object just created was not listed');
  const aheadMs = page.storeTimeMs - object.createdAtMs;
  return { aheadMs, isSame: aheadMs > -OBJECT_SKEW_MS_MAX && aheadMs < tookMs + OBJECT_SKEW_MS_MAX };
}
