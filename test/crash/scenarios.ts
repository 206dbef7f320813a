/**
 * Small stories in which one process, the victim, meets a fault at a chosen call. The other
 * processes survive.
 */

import { createCheckpointManager, isCheckpointError, type RunManager, type Settings } from '@holdfast/core';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import type { FaultyStore } from '@holdfast/testkit';
import { filesOf, SETTINGS, type Told, VICTIM_SETTINGS } from './invariants.ts';

export interface Stage {
  readonly bucket: MemoryBucket;
  /** The victim's client of the store. The victim's manager is opened on it. */
  readonly victimStore: FaultyStore;
  readonly told: Told[];
}

export interface Scenario {
  /** Prepares the initial state, without faults. */
  prepare(stage: Stage): Promise<void>;
  /** Runs the victim. It may never end. */
  victim(stage: Stage): Promise<void>;
  /** Runs other processes at the same time. */
  peers?(stage: Stage): Promise<void>;
}

interface Process {
  readonly attempt: string;
  readonly index: number;
  readonly count: number;
}

function openProcess(
  store: MemoryStore | FaultyStore,
  process: Process,
  settings: Partial<Settings>,
): RunManager {
  const { attempt, index, count } = process;
  return createCheckpointManager({ store, attempt, writer: { index, count }, settings });
}

/** Saves and records the result that the process received. A stopped process receives no result. */
async function saveAndTell(
  stage: Stage,
  manager: RunManager,
  process: Process,
  save: { version: bigint; timeoutMs?: number; noWait?: boolean },
): Promise<void> {
  const { attempt, index } = process;
  const tell = (outcome: string) =>
    stage.told.push({ attempt, writer: index, version: save.version, outcome });
  try {
    const result = await manager.save({ ...save, buffers: filesOf(attempt, save.version, index) });
    tell(result.isCommitted ? 'committed' : 'delivered');
  } catch (error) {
    if (!isCheckpointError(error)) throw error;
    tell(error.code);
  }
}

/** A healthy process that saves one version and ends. */
export async function saveHealthy(
  stage: Stage,
  process: Process,
  save: { version: bigint; timeoutMs?: number; noWait?: boolean },
): Promise<void> {
  await using manager = openProcess(new MemoryStore(stage.bucket), process, SETTINGS);
  await saveAndTell(stage, manager, process, save);
}

async function saveVictim(
  stage: Stage,
  process: Process,
  versions: readonly bigint[],
  options: { timeoutMs?: number } = {},
): Promise<void> {
  const manager = openProcess(stage.victimStore, process, VICTIM_SETTINGS);
  for (const version of versions) await saveAndTell(stage, manager, process, { version, ...options });
  await manager.close();
}

const LONE: Process = { attempt: 'job-0', index: 0, count: 1 };
const PEER: Process = { attempt: 'job-0', index: 0, count: 2 };
const SECOND: Process = { attempt: 'job-0', index: 1, count: 2 };

export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'a lone writer joins a new run, saves and commits twice': {
    prepare: async () => undefined,
    victim: (stage) => saveVictim(stage, LONE, [1n, 2n]),
  },
  'one of two writers saves while the other waits for it': {
    prepare: async () => undefined,
    victim: (stage) => saveVictim(stage, SECOND, [1n], { timeoutMs: 60 }),
    peers: (stage) => saveHealthy(stage, PEER, { version: 1n, timeoutMs: 60 }),
  },
  'a new attempt takes the run over and saves': {
    prepare: (stage) => saveHealthy(stage, LONE, { version: 1n }),
    victim: (stage) => saveVictim(stage, { ...LONE, attempt: 'job-1' }, [2n]),
  },
  'two new attempts take the run over at the same time': {
    prepare: (stage) => saveHealthy(stage, LONE, { version: 1n }),
    victim: (stage) => saveVictim(stage, { ...LONE, attempt: 'job-1' }, [2n]),
    peers: (stage) => saveHealthy(stage, { ...LONE, attempt: 'job-2' }, { version: 2n }),
  },
  'a writer restarts within its attempt and saves what its former life had delivered': {
    prepare: async (stage) => {
      await saveHealthy(stage, PEER, { version: 1n, noWait: true });
      await saveHealthy(stage, SECOND, { version: 1n });
      await saveHealthy(stage, SECOND, { version: 2n, noWait: true });
    },
    victim: (stage) => saveVictim(stage, SECOND, [2n], { timeoutMs: 60 }),
    peers: (stage) => saveHealthy(stage, PEER, { version: 2n, timeoutMs: 60 }),
  },
  'a survivor commits what both writers have delivered, while a writer does': {
    prepare: async (stage) => {
      await saveHealthy(stage, PEER, { version: 1n, noWait: true });
    },
    victim: async (stage) => {
      const manager = createCheckpointManager({ store: stage.victimStore, settings: VICTIM_SETTINGS });
      await manager.commit({ version: 1n, timeoutMs: 60 }).catch(noteOurs);
      await manager.close();
    },
    peers: (stage) => saveHealthy(stage, SECOND, { version: 1n, timeoutMs: 60 }),
  },
  'a reader restores while a writer commits': {
    prepare: (stage) => saveHealthy(stage, LONE, { version: 1n }),
    victim: async (stage) => {
      const manager = createCheckpointManager({ store: stage.victimStore, settings: VICTIM_SETTINGS });
      const files = filesOf('job-0', 1n, 0);
      const to = Object.fromEntries(
        Object.entries(files).map(([name, bytes]) => [name, new Uint8Array(bytes.length)]),
      );
      const restored = await manager.restore({ version: 1n, to }).catch(noteOurs);
      if (restored) {
        for (const [name, bytes] of Object.entries(files)) {
          if (Buffer.compare(bytes, to[name] ?? new Uint8Array()) !== 0)
            throw new Error(`I9: ${name} was restored wrong`);
        }
      }
      await manager.close();
    },
    peers: (stage) => saveHealthy(stage, { ...LONE, attempt: 'job-1' }, { version: 2n }),
  },
};

function noteOurs(error: unknown): undefined {
  if (isCheckpointError(error)) return undefined;
  throw error;
}
