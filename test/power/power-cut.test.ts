/**
 * The power is cut at every moment of each story, and the disk loses whatever it did not have to
 * keep. Every answer given before must still be true. Each object that an answer of the store has
 * shown exists completely, and so does each checkpoint that a save acknowledged. The tests use no
 * real disk: a store call that bypasses the simulated disk finds nothing and fails.
 */

import { createCheckpointManager } from '@holdfast/core';
import { SeededRandom } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { LONG_COUNT } from '../cloud/config.ts';
import { type checkInvariants, filesOf, type RunView } from '../crash/invariants.ts';
import { Stage, type StageOptions } from './stage.ts';

const SEED = 20_26;
/**
 * How many of the disk states are checked as a whole run. The objects are checked in all states.
 */
const RUNS_MAX = LONG_COUNT > 0 ? Number.POSITIVE_INFINITY : 24;

const LONE = { attempt: 'job-0', index: 0, count: 1 };
const FIRST = { attempt: 'job-0', index: 0, count: 2 };
const SECOND = { attempt: 'job-0', index: 1, count: 2 };

interface Story {
  play(stage: Stage): Promise<void>;
  /** The last outcome per version that processes got, in order. */
  readonly told: readonly string[];
  readonly look?: typeof checkInvariants;
}

/**
 * The first of two writers that creates such a name dies before the sync. The other writer finds
 * the name.
 */
function dieAfterNaming(name: RegExp): Story {
  return {
    play: async (stage) => {
      let isTaken = false;
      const diesAfter = (call: string, path: string) => {
        if (isTaken || !/link$/.test(call) || !name.test(path)) return false;
        isTaken = true;
        return true;
      };
      await Promise.all([FIRST, SECOND].map((who) => stage.save(who, 1n, { diesAfter })));
    },
    told: ['committed'],
  };
}

const STORIES = {
  'a lone writer saves, and one that takes the run over': {
    play: async (stage) => {
      await stage.save(LONE, 1n);
      await stage.save({ ...LONE, attempt: 'job-1' }, 2n);
    },
    told: ['committed', 'committed'],
  },
  'two writers save at once': {
    play: async (stage) => {
      await Promise.all([stage.save(FIRST, 1n), stage.save(SECOND, 1n)]);
    },
    told: ['committed', 'committed'],
  },
  'one of two writers dies when its receipt has its name': dieAfterNaming(/receipts/),
  'one of two writers dies when its manifest has its name': dieAfterNaming(/manifest-/),
  'one of two writers dies when its commit has its name': dieAfterNaming(/catalog\/0*2/),
  'a survivor commits what two writers have delivered': {
    play: async (stage) => {
      await stage.save(FIRST, 1n, { noWait: true });
      await stage.save(SECOND, 1n, {
        noWait: true,
        diesAfter: (call, path) => /link$/.test(call) && /receipts/.test(path),
      });
      const { manager } = await stage.start(LONE);
      await manager.commit({ version: 1n });
      stage.tell({ attempt: 'job-0', writer: 0, version: 1n, outcome: 'committed' });
      await manager.close();
    },
    told: ['delivered', 'committed'],
  },
  'a writer is killed, and its next life goes on with what it left': {
    play: async (stage) => {
      for (const diesAfter of [20, 40, 50, 62]) {
        const version = BigInt(diesAfter);
        await stage.save(LONE, version, { diesAfter });
        await stage.save(LONE, version);
      }
    },
    told: ['committed', 'committed', 'committed', 'committed'],
  },
  'retention removes what it may, and nothing else': {
    play: async (stage) => {
      for (const version of [1n, 2n]) await stage.save(LONE, version);
      const { manager } = await stage.start(LONE);
      await manager.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
      await manager.close();
    },
    told: ['committed', 'committed'],
    look: restoreNewest,
  },
} satisfies Readonly<Record<string, Story>>;

/** The newest checkpoint is complete. Older ones may be in the middle of deletion. */
async function restoreNewest(run: RunView, told: readonly { readonly version: bigint }[]): Promise<void> {
  const version = told.at(-1)?.version;
  if (version === undefined) return;
  await using manager = createCheckpointManager({ store: run.openStore() });
  const files = filesOf('job-0', version, 0);
  const to = Object.fromEntries(
    Object.entries(files).map(([name, { length }]) => [name, new Uint8Array(length)]),
  );
  await manager.restore({ version, to });
  for (const [name, bytes] of Object.entries(files)) {
    if (Buffer.compare(to[name] ?? new Uint8Array(), bytes) !== 0) throw new Error(`${name} is wrong`);
  }
}

async function play(story: Story, options: Omit<StageOptions, 'random'>, runsMax = RUNS_MAX): Promise<Stage> {
  const stage = new Stage({ random: new SeededRandom(SEED), ...options });
  await story.play(stage);
  await stage.check(runsMax, story.look);
  return stage;
}

describe.each(Object.entries<Story>(STORIES))('%s', (_, story) => {
  test.each([true, false])(
    'and whenever the power goes, all that was told is true (hard links: %s)',
    async (hasHardLinks) => {
      const stage = await play(story, { hasHardLinks });
      expect([...stage.breaches]).toEqual([]);
      expect(stage.told.map(({ outcome }) => outcome)).toEqual(story.told);
      expect(stage.images.length).toBeGreaterThan(100);
    },
  );
});

/**
 * True for all directories, and for files that are about to get their name. Other files were synced
 * before.
 */
function isNeeded(path: string): boolean {
  return !path.endsWith('.json') && !path.includes('/.holdfast-data/');
}

/** All stories with one mistake each take some seconds together, and longer on a busy machine. */
const MISTAKES_TIMEOUT_MS = 120_000;

/**
 * One process only: another process could not know of the failed sync, because the disk does not
 * report it again.
 */
const ONE_PROCESS: Story = { play: (stage) => stage.save(LONE, 1n), told: ['committed'] };

test.each([true, false])(
  'whichever sync fails once, what the process is told is true (hard links: %s)',
  async (hasHardLinks) => {
    const { synced } = await play(ONE_PROCESS, { hasHardLinks }, 0);
    for (const path of [...synced].filter(isNeeded)) {
      const stage = await play(ONE_PROCESS, { hasHardLinks, fails: (each) => each === path }, 0);
      expect([path, ...stage.breaches]).toEqual([path]);
      // After its directory failed to sync, a file may be sent under another name. A record may
      // not.
      if (/\/(catalog|receipts|1\.1)$/.test(path))
        expect([path, stage.told[0]?.outcome]).not.toEqual([path, 'committed']);
    }
  },
  MISTAKES_TIMEOUT_MS,
);

describe('planted omissions', () => {
  test.each([
    ['two writers save at once', true],
    ['two writers save at once', false],
  ] as const)(
    'each sync that is left out of the story "%s" is found (hard links: %s)',
    async (title, hasHardLinks) => {
      const story = STORIES[title];
      const { synced } = await play(story, { hasHardLinks }, 0);
      const needed = [...synced].filter(isNeeded);
      expect(needed.length).toBeGreaterThan(10);
      const unseen: string[] = [];
      for (const path of needed) {
        const { breaches } = await play(story, { hasHardLinks, omits: (each) => each === path }, 0);
        if (breaches.size === 0) unseen.push(path);
      }
      expect(unseen).toEqual([]);
    },
    MISTAKES_TIMEOUT_MS,
  );
});
