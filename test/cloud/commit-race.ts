/**
 * A race for a version that is delivered but not committed. Many processes try to finish it at
 * once: its writer, survivors, and a new attempt. The new attempt takes over the run and saves the
 * same version with its own files.
 */

import { createCheckpointManager, isCheckpointError, type RunManager } from '@holdfast/core';
import type { ObjectStore } from '@holdfast/core/contract';
import { openStore } from '@holdfast/stores';
import { FaultyStore, refuse } from '@holdfast/testkit';
import { expect } from 'vitest';
import { checkInvariants, filesOf, SETTINGS, type Told } from '../crash/invariants.ts';
import type { Cloud } from '../servers/clouds.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { viewOfRun } from './run-view.ts';

/**
 * Each version gives the survivors another head start, from no call up to the calls that one
 * survivor needs for a commit.
 */
export const HEAD_STARTS = 8;

/**
 * `Fenced`: a newer attempt fenced the commit that it had begun. `Incomplete`: it found the rival's
 * epoch, in which no writer had delivered yet.
 */
const WHEN_OVERTAKEN = ['Fenced', 'Incomplete'];

interface Answer {
  readonly who: 'writer' | 'survivor' | 'rival';
  /** `committed`, or the code of the error. */
  readonly outcome: string;
}

export class CommitRace {
  readonly #cloud: Cloud;
  readonly #run: TestBucket;
  readonly #survivors: readonly RunManager[];
  readonly #told: Told[] = [];
  /** Runs at each call of the one who has a head start: the first survivor, or the rival. */
  #onCall: () => void = () => undefined;

  private constructor(cloud: Cloud, run: TestBucket, stores: readonly ObjectStore[]) {
    this.#cloud = cloud;
    this.#run = run;
    this.#survivors = stores.map((store, index) =>
      createCheckpointManager({
        store: index === 0 ? new FaultyStore(store, this.#plan) : store,
        settings: SETTINGS,
      }),
    );
  }

  readonly #plan = () => {
    this.#onCall();
    return undefined;
  };

  /** `finisherCount` includes the writer and the new attempt. */
  static async open(cloud: Cloud, run: TestBucket, finisherCount: number): Promise<CommitRace> {
    const open = () => openStore(run.uri, run.env);
    return new CommitRace(cloud, run, await Promise.all(Array.from({ length: finisherCount - 2 }, open)));
  }

  /**
   * Races once for a version above all earlier ones. The rival begins when the first survivor has
   * made `headStart` calls. Below 0, the others begin when the rival has made so many calls.
   * Resolves to the process whose files were committed.
   */
  async play(version: bigint, headStart: number): Promise<Answer['who']> {
    await using writer = await this.#deliver(version);
    const rivalStore = await openStore(this.#run.uri, this.#run.env);
    await using rival = createCheckpointManager({
      store: headStart < 0 ? new FaultyStore(rivalStore, this.#plan) : rivalStore,
      attempt: `rival-${version}`,
      settings: SETTINGS,
    });
    const beginRival = () => [this.#save(rival, 'rival', version)];
    const beginOthers = () => [
      ...this.#survivors.map((survivor) => this.#finish(survivor, version)),
      this.#save(writer, 'writer', version),
    ];
    const sides = headStart < 0 ? [beginRival, beginOthers] : [beginOthers, beginRival];
    const settled = await this.#inOrder(sides, Math.abs(headStart));
    const winner = await this.#committedBy(version);
    judge(version, settled, winner);
    return winner;
  }

  /** The second side begins at the n-th counted call from now on, or at the end of the first. */
  async #inOrder(sides: readonly (() => Promise<Answer>[])[], callCount: number): Promise<Answer[]> {
    const due = Promise.withResolvers<void>();
    let left = callCount;
    this.#onCall = () => {
      if (left-- === 0) due.resolve();
    };
    const answers: Promise<Answer>[] = [];
    for (const begin of sides) {
      if (answers.length > 0) await Promise.race([due.promise, Promise.all(answers)]);
      answers.push(...begin());
    }
    return Promise.all(answers);
  }

  /** Checks that every version is complete and that every reported outcome is true. */
  async end(): Promise<void> {
    await Promise.all(this.#survivors.map((survivor) => survivor.close()));
    await checkInvariants(await viewOfRun(this.#cloud, this.#run), this.#told);
  }

  /** A writer whose files are delivered and whose commit was rejected. */
  async #deliver(version: bigint): Promise<RunManager> {
    let isRefused = false;
    const store = new FaultyStore(await openStore(this.#run.uri, this.#run.env), ({ operation, key }) => {
      // The first entry is its takeover, before it has delivered.
      const isCommit =
        !isRefused && operation === 'create' && key.startsWith('catalog/') && hasDelivered(store);
      if (!isCommit) return undefined;
      isRefused = true;
      return refuse('Denied');
    });
    const manager = createCheckpointManager({ store, attempt: `job-${version}`, settings: SETTINGS });
    const refused = manager.save({ version, buffers: filesOf(`job-${version}`, version, 0) });
    await expect(refused).rejects.toMatchObject({ code: 'Denied' });
    return manager;
  }

  async #save(manager: RunManager, who: 'writer' | 'rival', version: bigint): Promise<Answer> {
    const attempt = who === 'rival' ? `rival-${version}` : `job-${version}`;
    const outcome = await outcomeOf(manager.save({ version, buffers: filesOf(attempt, version, 0) }));
    this.#told.push({ attempt, writer: 0, version, outcome });
    return { who, outcome };
  }

  async #finish(survivor: RunManager, version: bigint): Promise<Answer> {
    return { who: 'survivor', outcome: await outcomeOf(survivor.commit({ version })) };
  }

  /** Which process made the single commit of this version. */
  async #committedBy(version: bigint): Promise<Answer['who']> {
    const [looker] = this.#survivors;
    const entries = (await looker?.admin.log({ limit: 10 })) ?? [];
    const commits = entries.filter(
      ({ kind, checkpoints }) => kind === 'commit' && checkpoints[0]?.version === version,
    );
    expect(commits).toHaveLength(1);
    return commits[0]?.attempt === `rival-${version}` ? 'rival' : 'writer';
  }
}

function judge(version: bigint, answers: readonly Answer[], committedBy: Answer['who']): void {
  for (const { who, outcome } of answers) {
    const isTrue =
      who === 'survivor'
        ? outcome === 'committed' || (committedBy === 'rival' && WHEN_OVERTAKEN.includes(outcome))
        : who === committedBy
          ? outcome === 'committed'
          : outcome === 'Fenced' || outcome === 'Conflict';
    if (!isTrue)
      throw new Error(`I7: version ${version} is the ${committedBy}'s, but a ${who} was told ${outcome}`);
  }
}

function hasDelivered(store: FaultyStore): boolean {
  return store.calls.some(({ operation, key }) => operation === 'create' && key.includes('/receipts/'));
}

async function outcomeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'committed';
  } catch (error) {
    if (!isCheckpointError(error)) throw error;
    return error.code;
  }
}
