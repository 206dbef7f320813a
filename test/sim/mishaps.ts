/**
 * Faults of one process of a trainer, in addition to the random faults of all calls. Each opens a
 * window that random faults hardly ever hit.
 */

import { FAULTS, type Fault, type SeededRandom } from '@holdfast/testkit';
import type { LifeStory } from './life-story.ts';
import type { ProcessOptions } from './process.ts';
import type { Scheduler } from './scheduler.ts';

type Mishap = Pick<ProcessOptions, 'plan' | 'pace'>;

const PACE_OF_STANDING = 0.01;
const STANDING_STEPS_MAX = 60;

export function drawMishap(story: LifeStory, scheduler: Scheduler, random: SeededRandom): Mishap {
  const draw = random.fraction();
  if (story.isLarge && draw < 0.25) return diesOnceCompleted();
  if (story.isLarge && draw < 0.6) return standsBeforeCompletion(scheduler, random);
  if (random.fraction() < story.lostReceiptChance) return losesReceipts(random);
  return {};
}

/** Dies after it has completed an upload and before it has written the receipt. */
function diesOnceCompleted(): Mishap {
  return { plan: ({ operation }) => (operation === 'complete' ? FAULTS.stopAfter : undefined) };
}

/** Stops before it completes an upload. Another process may continue the upload in the meantime. */
function standsBeforeCompletion(scheduler: Scheduler, random: SeededRandom): Mishap {
  let standsUntil = 0;
  return {
    plan: ({ operation }) => {
      if (operation === 'complete') standsUntil = scheduler.steps + random.integer(STANDING_STEPS_MAX);
      return undefined;
    },
    pace: () => (scheduler.steps < standsUntil ? PACE_OF_STANDING : 1),
  };
}

/** No receipt of the process arrives while it waits for the answer. Some arrive later. */
function losesReceipts(random: SeededRandom): Mishap {
  const fault: Fault = { effect: random.pick(['none', 'late']), reply: 'stall' };
  return {
    plan: ({ operation, key }) => (operation === 'create' && key.includes('/receipts/') ? fault : undefined),
  };
}
