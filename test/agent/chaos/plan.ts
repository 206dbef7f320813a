/** What happens in a round. It follows from the seed alone. */

import { SeededRandom } from '@holdfast/testkit';

export type Target = 'rank' | 'ranks' | 'agent' | 'both';

/** A line of a rank, or of the agent's log, at which a fault begins. */
export interface Moment {
  readonly from: 'rank' | 'agent';
  readonly event: string;
  /** The fault begins at the line of this number, counted from 1 since the fault before. */
  readonly count: number;
  readonly delayMs: number;
}

/** Which trainers go on after a fault that ends some. */
export type Successor =
  /** New lives in the same attempt, for the ranks that ended. */
  | 'life'
  /** All ranks, in a new attempt. Those that still run are killed, or are left running. */
  | 'attempt'
  | 'attempt-beside'
  | 'none';

export interface Fault {
  readonly at: Moment;
  readonly target: Target;
  readonly rank: number;
  readonly signal: 'SIGKILL' | 'SIGSTOP' | 'SIGTERM';
  /** After SIGSTOP, how long until the other signal. */
  readonly frozenMs: number;
  readonly afterFreeze: 'SIGCONT' | 'SIGKILL';
  /** From the death of processes to the start of others. */
  readonly pauseMs: number;
  /** An agent that starts after this fault is killed so long after its start, and started again. */
  readonly killedAtStartMs: number | null;
  readonly successor: Successor;
}

export interface RoundPlan {
  readonly seed: number;
  readonly isInMemory: boolean;
  readonly rankCount: number;
  readonly versions: number;
  readonly bytes: number;
  readonly isWaiting: boolean;
  readonly isInTwoSteps: boolean;
  readonly isClosing: boolean;
  readonly saveTimeoutMs: number | null;
  readonly bytesPerSecondMax: number | null;
  readonly faults: readonly Fault[];
  /** How the agent ends after the ranks. */
  readonly lastSignal: 'SIGKILL' | 'SIGTERM';
}

const RANK_EVENTS = ['call', 'joined', 'seal', 'seal', 'open', 'staged', 'staged', 'committed'] as const;
const AGENT_EVENTS = [
  'writer joins',
  'save accepted',
  'save uploading',
  'save delivered',
  'save delivered',
  'save committed',
] as const;
const DELAYS_MS = [0, 0, 1, 3, 10, 40, 150] as const;
const FROZEN_MS = [20, 150, 600, 1500] as const;

export function planOf(seed: number): RoundPlan {
  const random = new SeededRandom(seed);
  const rankCount = random.pick([2, 2, 2, 2, 1, 4]);
  const isInTwoSteps = random.fraction() < 0.25;
  return {
    seed,
    rankCount,
    isInTwoSteps,
    isInMemory: random.fraction() < 0.75,
    versions: 3 + random.integer(3),
    bytes: random.pick([8 * 1024, 400_000, 400_000, 3_000_000]),
    // A save in two steps needs both segments.
    isWaiting: isInTwoSteps || random.fraction() < 0.5,
    isClosing: random.fraction() < 0.5,
    saveTimeoutMs: random.fraction() < 0.2 ? 2000 : null,
    bytesPerSecondMax: random.fraction() < 0.25 ? 4_000_000 : null,
    faults: Array.from({ length: random.pick([1, 1, 2, 3]) }, () => faultOf(random, rankCount)),
    lastSignal: random.fraction() < 0.7 ? 'SIGKILL' : 'SIGTERM',
  };
}

function faultOf(random: SeededRandom, rankCount: number): Fault {
  const target = random.pick<Target>(['rank', 'rank', 'ranks', 'agent', 'agent', 'agent', 'both', 'both']);
  const isOfRanks = target !== 'agent';
  return {
    at: momentOf(random),
    target,
    rank: random.integer(rankCount),
    signal: random.pick(['SIGKILL', 'SIGKILL', 'SIGKILL', 'SIGSTOP', 'SIGSTOP', 'SIGTERM']),
    frozenMs: random.pick(FROZEN_MS),
    afterFreeze: random.pick(['SIGCONT', 'SIGKILL']),
    pauseMs: random.pick([0, 0, 50, 300]),
    killedAtStartMs: random.fraction() < 0.25 ? 100 + random.integer(500) : null,
    successor: isOfRanks ? random.pick(['life', 'life', 'attempt', 'attempt-beside', 'none']) : 'none',
  };
}

function momentOf(random: SeededRandom): Moment {
  const from = random.fraction() < 0.6 ? 'rank' : 'agent';
  return {
    from,
    event: random.pick<string>(from === 'rank' ? RANK_EVENTS : AGENT_EVENTS),
    count: 1 + random.integer(5),
    delayMs: random.pick(DELAYS_MS),
  };
}
