/**
 * The story of one seed: the processes, what each does, and which faults occur. Everything is drawn
 * before the schedule begins.
 */

import type { Settings } from '@holdfast/core';
import { RECORD_LIMITS, type RecordLimits } from '@holdfast/core/internal/plan/file-lists';
import type { FaultName, SeededRandom } from '@holdfast/testkit';
import type { Pressure } from './scheduler.ts';

export interface AttemptStory {
  readonly label: string;
  /**
   * Without a given id, the only writer draws one, so that each of its lives is a separate attempt.
   */
  readonly isDrawn: boolean;
  readonly worldSize: number;
  readonly versions: readonly number[];
  /** Step of the schedule at which the processes of the attempt begin. */
  readonly notBefore: number;
}

export interface Story {
  readonly attempts: readonly AttemptStory[];
  readonly survivors: number;
  readonly readers: number;
  readonly collectors: number;
  /**
   * Files of two parts, the same in every life of a writer. The checks of the crash stories apply
   * too.
   */
  readonly isLarge: boolean;
  readonly livesWriteTheSame: boolean;
  readonly maxListKeys: number;
  readonly settings: Partial<Settings>;
  /** With low limits every file has a list of its own, and manifests refer to receipts. */
  readonly recordLimits: RecordLimits;
  readonly pressure: Pressure;
  readonly rates: Readonly<Partial<Record<FaultName, number>>>;
  /**
   * Chances that a dead writer restarts, and that a second life begins while the first still runs.
   */
  readonly restartChance: number;
  readonly doubleChance: number;
  /** Chance that the caller stops a save, at some step of the schedule. */
  readonly stopChance: number;
}

export const VERSION_MAX = 4;
/**
 * One seed in this many has more files than one record can hold: those with remainder
 * `MANY_FILES_REST`.
 */
export const MANY_FILES_EVERY = 7;
export const MANY_FILES_REST = 2;
/**
 * From this seed on there are collectors, and no large files, which only the checks of the crash
 * stories know.
 */
export const FIRST_COLLECTING_SEED = 10_000_000;
/**
 * From this seed on the catalog moves all but its newest two checkpoints into pages, and more is
 * committed. There are collectors.
 */
export const FIRST_PAGING_SEED = 15_000_000;
/** From this seed on callers stop saves, and there are no collectors. */
export const FIRST_STOPPING_SEED = 20_000_000;
/**
 * From this seed on each writer draws its attempt id, decisions often exceed their deadline, and a
 * process often saves again.
 */
export const FIRST_DRAWN_SEED = 30_000_000;
/**
 * From this seed on the catalog is lost in the middle of work, and several processes rebuild it at
 * once.
 */
export const FIRST_LOSING_SEED = 40_000_000;
/**
 * From this seed on trainers start a process for each save, and are restarted under new lives:
 * lives.ts.
 */
export const FIRST_LIFE_SEED = 50_000_000;

const FAULT_NAMES: readonly FaultName[] = [
  'loseRequest',
  'loseReply',
  'delay',
  'duplicate',
  'duplicateSecondReply',
  'duplicateLate',
  'stall',
  'stallAfter',
];
const STOP_NAMES: readonly FaultName[] = ['stopBefore', 'stopAfter', 'stopInFlight'];

export function drawStory(random: SeededRandom): Story {
  const attemptCount = random.pick([1, 2, 2, 3]);
  let notBefore = 0;
  const attempts = Array.from({ length: attemptCount }, (_, index) => {
    const attempt = drawAttempt(random, index, notBefore);
    notBefore += random.pick([0, 10, 40, 100, 200]);
    return attempt;
  });
  const isLarge = random.fraction() < 0.06;
  return {
    attempts,
    survivors: random.pick([0, 0, 1, 1, 2]),
    readers: random.pick([0, 1, 1, 2]),
    collectors: 0,
    isLarge,
    livesWriteTheSame: isLarge || random.fraction() < 0.3,
    maxListKeys: random.pick([2, 5, 1000, 1000]),
    settings: drawSettings(random),
    recordLimits: RECORD_LIMITS,
    pressure: { time: random.pick([0.001, 0.005, 0.03]), landing: random.pick([0.02, 0.1]) },
    rates: drawRates(random),
    restartChance: random.pick([0, 0.7, 0.9]),
    doubleChance: random.pick([0, 0.1, 0.3]),
    stopChance: 0,
  };
}

/** The same story with collectors, and with readers of versions that collectors may retire. */
export function collectingStory(story: Story, collectors: number): Story {
  return { ...story, collectors, isLarge: false, readers: story.readers + 2 };
}

/** The same story with more files than one record can hold. */
export function manyFilesStory(story: Story): Story {
  return { ...story, recordLimits: { filesBytesMax: 1, repeatedBytesMax: 0 } };
}

/** The same story with callers that stop half of their saves. */
export function stoppingStory(story: Story): Story {
  return { ...story, stopChance: 0.5 };
}

/** The same story with pages of one checkpoint each, and enough commits for several pages. */
export function pagingStory(story: Story): Story {
  const longer = ({ versions, ...attempt }: AttemptStory) => {
    const last = versions.at(-1) ?? 0;
    return { ...attempt, versions: [...versions, last + 1, last + 2] };
  };
  return {
    ...story,
    attempts: story.attempts.map(longer),
    collectors: 3,
    settings: { ...story.settings, entryCheckpointsMax: 2 },
  };
}

/** The same story with attempt ids that only the processes know. */
export function drawnStory(story: Story): Story {
  return {
    ...story,
    attempts: story.attempts.map((attempt) => ({ ...attempt, worldSize: 1, isDrawn: true })),
    isLarge: false,
    settings: { ...story.settings, recordTimeoutMs: 40 },
    pressure: { ...story.pressure, time: 0.03 },
  };
}

function drawAttempt(random: SeededRandom, index: number, notBefore: number): AttemptStory {
  const worldSize = random.pick([1, 1, 2, 2, 3]);
  const isDrawn = worldSize === 1 && random.fraction() < 0.2;
  const first = 1 + random.integer(2);
  const count = 1 + random.integer(3);
  const versions = Array.from({ length: count }, (_, at) => first + at).filter((each) => each <= VERSION_MAX);
  return { label: `job-${index}`, isDrawn, worldSize, versions, notBefore };
}

function drawSettings(random: SeededRandom): Partial<Settings> {
  return {
    bufferBytes: 16 * 1024 * 1024,
    partSizeBytesMin: 64 * 1024,
    leaseTtlMs: 1000,
    retryDelayMsBase: 1,
    retryDelayMsMax: random.pick([2, 16]),
    retryCountMax: random.pick([1, 4, 10]),
    recordTimeoutMs: random.pick([40, 400, 4000]),
    stallTimeoutMs: random.pick([10, 100]),
  };
}

/**
 * Some faults are frequent and others absent: a mix of all faults at once would hide the rare
 * orders.
 */
function drawRates(random: SeededRandom): Partial<Record<FaultName, number>> {
  const rates: Partial<Record<FaultName, number>> = {};
  const total = random.pick([0, 0.01, 0.03, 0.1, 0.2]);
  const names = random.shuffle(FAULT_NAMES).slice(0, 1 + random.integer(FAULT_NAMES.length));
  for (const name of names) rates[name] = total / names.length;
  const stops = random.pick([0, 0, 0.006, 0.02]);
  for (const name of STOP_NAMES) rates[name] = stops / STOP_NAMES.length;
  return rates;
}
