/**
 * Saves to and restores from real stores through a network that is slow, narrow or loses
 * connections. The data must arrive correct and complete.
 */

import {
  createCheckpointManager,
  isCheckpointError,
  type RunManager,
  type Settings,
  systemClock,
} from '@holdfast/core';
import { ObservedStore, type StoreCall } from '@holdfast/core/store';
import { openStore } from '@holdfast/stores';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { checkInvariants, type Told } from '../crash/invariants.ts';
import { largeFilesOf } from '../crash/large-files.ts';
import { type Cloud, S3 } from '../servers/clouds.ts';
import { describeOnToxiproxy } from '../servers/describe-on-toxiproxy.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { type Toxic, type ToxicProxy, throughProxy } from '../servers/toxiproxy.ts';
import { LONG_COUNT } from './config.ts';
import { viewOfRun } from './run-view.ts';

const PART_BYTES = 5 * 1024 * 1024;
/** Makes two parts. */
const LARGE_BYTES = PART_BYTES + 70_000;
const SETTINGS = {
  bufferBytes: 4 * PART_BYTES,
  partSizeBytesMin: PART_BYTES,
  retryDelayMsBase: 5,
  retryDelayMsMax: 100,
  stallTimeoutMs: 1_000,
  // If every second connection is bad, ten attempts in a row may fail.
  retryCountMax: 40,
};
/**
 * For connections that lose all data. The client waits for each of them, and longer for each next
 * one. A call that is stopped must end within the same time, also in a thread of a busy machine.
 */
const SWALLOWED_STALL_TIMEOUT_MS = 250;
/**
 * Chance decides which connections are hit. The test saves versions until this many calls are hit,
 * up to a maximum.
 */
const HITS = 2;
const VERSIONS_MAX = 60;

type Name = keyof typeof NETWORKS;

/** Hits about every second of the many connections of a save. */
const toxicity = 0.5;

const NETWORKS = {
  'is far away': [
    { type: 'latency', stream: 'upstream', latencyMs: 25, jitterMs: 15 },
    { type: 'latency', stream: 'downstream', latencyMs: 25, jitterMs: 15 },
  ],
  'is narrow': [
    { type: 'bandwidth', stream: 'upstream', kilobytesPerSecond: 8_000 },
    { type: 'bandwidth', stream: 'downstream', kilobytesPerSecond: 8_000 },
  ],
  'resets connections': [{ type: 'reset_peer', stream: 'downstream', timeoutMs: 10, toxicity }],
  'loses replies': [{ type: 'limit_data', stream: 'downstream', bytes: 20, toxicity }],
  'breaks off in the middle of what is sent': [
    { type: 'limit_data', stream: 'upstream', bytes: 1_000_000, toxicity },
  ],
  'breaks off in the middle of what is read': [
    { type: 'limit_data', stream: 'downstream', bytes: 1_000_000, toxicity },
  ],
  'swallows requests': [{ type: 'timeout', stream: 'upstream', timeoutMs: 0, toxicity }],
  'ends connections late': [{ type: 'slow_close', stream: 'downstream', delayMs: 200 }],
} as const satisfies Record<string, readonly Toxic[]>;

/** Faults for every cloud. Only S3 and long runs test the others. */
const EVERYWHERE: readonly Name[] = ['is far away', 'is narrow', 'resets connections', 'loses replies'];

/** Faults that make calls fail, so that they must be repeated. */
const LOSSY: readonly Name[] = [
  'resets connections',
  'loses replies',
  'breaks off in the middle of what is sent',
  'breaks off in the middle of what is read',
  'swallows requests',
];

const filesOf = (attempt: string, version: bigint, writer: number) =>
  largeFilesOf(attempt, version, writer, LARGE_BYTES);

/**
 * A run that new processes save to and restore from. Each has only data that passes through a
 * proxy.
 */
class Story {
  readonly told: Told[] = [];
  /** Number of calls that failed and could be repeated. */
  hits = 0;
  readonly #run: TestBucket;
  readonly #settings: Partial<Settings>;

  constructor(run: TestBucket, settings: Partial<Settings>) {
    this.#run = run;
    this.#settings = settings;
  }

  async saveAndRestore(version: bigint): Promise<void> {
    await using writer = await this.#open();
    const outcome = await outcomeOf(writer.save({ version, buffers: filesOf('job', version, 0) }));
    this.told.push({ attempt: 'job', writer: 0, version, outcome });
    await using reader = await this.#open();
    const files = filesOf('job', version, 0);
    const to = Object.fromEntries(
      Object.entries(files).map(([name, { byteLength }]) => [name, new Uint8Array(byteLength)]),
    );
    await reader.restore({ version, to });
    for (const [name, bytes] of Object.entries(files))
      expect(Buffer.compare(to[name] ?? new Uint8Array(), bytes)).toBe(0);
  }

  async #open(): Promise<RunManager> {
    const onCall = ({ outcome }: StoreCall) => {
      if (outcome === 'Unavailable' || outcome === 'Aborted') this.hits++;
    };
    const store = new ObservedStore(await openStore(this.#run.uri, this.#run.env), {
      clock: systemClock,
      onCall,
    });
    return createCheckpointManager({ store, attempt: 'job', settings: this.#settings });
  }
}

async function outcomeOf(save: Promise<unknown>): Promise<string> {
  try {
    await save;
    return 'committed';
  } catch (error) {
    if (!isCheckpointError(error)) throw error;
    return `${error.code}: ${error.message}`;
  }
}

export function describeBehindBadNetwork(cloud: Cloud): void {
  const all = Object.keys(NETWORKS) as Name[];
  const names = cloud === S3 || LONG_COUNT > 0 ? all : EVERYWHERE;
  cloud.describeOnOwn(`a bad network before ${cloud.title}`, (server) => {
    describeOnToxiproxy(cloud.suite, 'through Toxiproxy', (toxiproxy) => {
      let proxy: ToxicProxy;
      let run: TestBucket;
      beforeEach(async () => {
        run = await server().newBucket();
        proxy = await toxiproxy().proxy(run.endpoint ?? '');
      });
      afterEach(() => proxy.remove());

      test.each(names)(
        'I1, I4, I7, I9 and I10 hold where it %s',
        async (name) => {
          for (const toxic of NETWORKS[name]) await proxy.add(toxic);
          const isLossy = LOSSY.includes(name);
          const isSilent = name === 'swallows requests';
          const settings = isSilent ? { ...SETTINGS, stallTimeoutMs: SWALLOWED_STALL_TIMEOUT_MS } : SETTINGS;
          const story = new Story(throughProxy(run, proxy), settings);
          for (let version = 1n; version === 1n || (isLossy && story.hits < HITS); version++) {
            if (version > VERSIONS_MAX) throw new Error(`of ${VERSIONS_MAX} versions no call was hit`);
            await story.saveAndRestore(version);
          }
          await proxy.heal();
          expect(story.told.filter(({ outcome }) => outcome !== 'committed')).toEqual([]);
          await checkInvariants(await viewOfRun(cloud, run), story.told, filesOf);
        },
        120_000,
      );
    });
  });
}
