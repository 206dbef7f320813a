/**
 * Settings of the engine: plain values, each with its unit in its name, a default and limits.
 * Callers may give some of them. They are completed and checked once, when a manager is opened.
 */

import { notAccepted } from './checks.ts';
import { CheckpointError } from './errors.ts';

interface SettingFacts {
  readonly default: number;
  /** Inclusive. */
  readonly min: number;
  /** Inclusive. */
  readonly max: number;
  readonly meaning: string;
}

const MIB = 1024 * 1024;
const MINUTE_MS = 60_000;

export const SETTINGS = {
  bufferBytes: {
    default: 256 * MIB,
    min: 16 * MIB,
    max: 4096 * MIB - 64 * 1024, // one WebAssembly.Memory: 65,536 pages of 64 KiB, less one page
    meaning: 'Memory for bytes in transfer, for all saves and restores of one manager together.',
  },
  partSizeBytesMin: {
    default: 8 * MIB,
    min: 64 * 1024,
    max: 1024 * MIB,
    meaning:
      'Smallest part of a file that is sent or read in one request. A large file takes larger parts. Larger ones need fewer requests, of which a store takes only so many per second from all writers together. Set it to what the whole job sends per second, divided by 3,000, if that is more.',
  },
  concurrency: {
    default: 0,
    min: 0,
    max: 1024,
    meaning:
      'Requests in flight in one save or restore, and parts of large files beside them. 0: the number that the store prefers. Fewer while the store throttles.',
  },
  workers: {
    default: -1,
    min: -1,
    max: 64,
    meaning:
      'Threads that hash, send and receive the bytes of saves and restores, shared by all managers of a process. 0: the main thread does it all. -1: none on one or two processors, else one for each processor but one, at most 8, from the moment at which a manager has 256 MiB to move.',
  },
  saveBytesPerSecondMax: {
    default: 0,
    min: 0,
    max: 1_000_000_000_000,
    meaning:
      'Limit for the payload that all saves, mirrors and forks of one manager send per second; 0: no limit. `manager.throttle` changes and pauses it.',
  },
  commitTimeoutMs: {
    default: 10 * MINUTE_MS,
    min: 0,
    max: 7 * 24 * 60 * MINUTE_MS,
    meaning: 'How long a save waits for the other writers before it ends as `Incomplete`.',
  },
  recordTimeoutMs: {
    default: 2 * MINUTE_MS,
    min: 1,
    max: 60 * MINUTE_MS,
    meaning:
      'How long one decision (join, commit, read of the catalog) may take, retries included. While a commit reads the records of the writers, each answer restarts this time.',
  },
  stallTimeoutMs: {
    default: 20_000,
    min: 1,
    max: 60 * MINUTE_MS,
    meaning:
      'A single payload request without an answer for this long is stopped and retried. So is one that takes 30 times as long, plus the time of its bytes at 16 KiB per second.',
  },
  hedgeDelayMsMin: {
    default: 2000,
    min: 0,
    max: 60 * MINUTE_MS,
    meaning:
      'A read that takes at least this long, and four times as long as others of its size, is sent a second time. The faster answer counts. 0 switches this off.',
  },
  retryTimeoutMs: {
    default: 10 * MINUTE_MS,
    min: 0,
    max: 24 * 60 * MINUTE_MS,
    meaning:
      'How long a request is retried after its first temporary error; 0: never. A decision is limited by `recordTimeoutMs`, which is shorter by default.',
  },
  retryCountMax: {
    default: 1000,
    min: 0,
    max: 1000,
    meaning:
      'How many times one request is retried after temporary errors. Usually `retryTimeoutMs` ends the retries first.',
  },
  retryDelayMsBase: {
    default: 100,
    min: 0,
    max: 60_000,
    meaning:
      'Delay before the first retry. It doubles each time, and the wait is a random part of it (full jitter). Five times as long after `Throttled`.',
  },
  retryDelayMsMax: {
    default: 20_000,
    min: 0,
    max: 10 * MINUTE_MS,
    meaning: 'Upper limit of the delay before a retry, also if the store asks for a longer one.',
  },
  leaseTtlMs: {
    default: 15 * MINUTE_MS,
    min: 1000,
    max: 7 * 24 * 60 * MINUTE_MS,
    meaning:
      'How long a restore, or a save that refers to unchanged files, protects a checkpoint from collection without a renewal. The lease is renewed after a third of this time. Renewal stops for a stream or source that is not read for four times as long.',
  },
  entryCheckpointsMax: {
    default: 1024,
    min: 2,
    max: 4096,
    meaning:
      'How many checkpoints an entry of the catalog holds itself. Beyond that, all but the newest half move into pages. Each takes about 300 bytes, and every commit writes one entry.',
  },
  deletesPerSecondMax: {
    // S3 allows 3,500 a second below one prefix, and saves share that limit.
    default: 1000,
    min: 1,
    max: 1_000_000,
    meaning: 'How many objects collection deletes per second at most.',
  },
} as const satisfies Record<string, SettingFacts>;

export type SettingName = keyof typeof SETTINGS;
export type Settings = { readonly [name in SettingName]: number };

/**
 * Fills in defaults. `InvalidConfig` names an unknown setting, or one outside its limits together
 * with the limits.
 */
export function completeSettings(given: Partial<Settings> = {}): Settings {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw notAccepted('settings', given, 'an object', 'InvalidConfig');
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(SETTINGS, name)) {
      const known = Object.keys(SETTINGS).join(', ');
      throw new CheckpointError('InvalidConfig', `unknown setting "${name}"; there are: ${known}`);
    }
  }
  const complete = {} as Record<SettingName, number>;
  for (const [key, facts] of Object.entries(SETTINGS)) {
    const name = key as SettingName;
    const value = given[name] === undefined ? facts.default : given[name];
    if (!Number.isSafeInteger(value) || value < facts.min || value > facts.max) {
      const accepted = `a whole number from ${facts.min} to ${facts.max}`;
      throw notAccepted(`setting ${name}`, value, accepted, 'InvalidConfig');
    }
    complete[name] = value;
  }
  if (complete.partSizeBytesMin * 2 > complete.bufferBytes) {
    throw new CheckpointError(
      'InvalidConfig',
      `setting bufferBytes (${complete.bufferBytes}) must be at least twice partSizeBytesMin (${complete.partSizeBytesMin})`,
    );
  }
  return complete;
}
