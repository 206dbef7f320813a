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
  /** Runs at each call of the first survivor. */
  #onCall: () => void = () => undefined;

  private constructor(cloud: Cloud, run: TestBucket, stores: readonly ObjectStore[]) {
    const plan = () => {
      this.#onCall();
      return undefined;
    };
    this.#cloud = cloud;
    this.#run = run;
    this.#survivors = stores.map((store, index) =>
      createCheckpointManager({
        store: index === 0 ? new FaultyStore(store, plan) : store,
        settings: SETTINGS,
      }),
    );
  }

  /** `finisherCount` includes the writer and the new attempt. */
  static async open(cloud: Cloud, run: TestBucket, finisherCount: number): Promise<CommitRace> {
    const open = () => openStore(run.uri, run.env);
    return new CommitRace(cloud, run, await Promise.all(Array.from({ length: finisherCount - 2 }, open)));
  }

  /**
   * Races once for a version above all earlier ones. The rival begins when the first survivor has
   * made `headStart` calls. Resolves to the process whose files were committed.
   */
  async play(version: bigint, headStart: number): Promise<Answer['who']> {
    await using writer = await this.#deliver(version);
    await using rival = createCheckpointManager({
      store: await openStore(this.#run.uri, this.#run.env),
      attempt: `rival-${version}`,
      settings: SETTINGS,
    });
    const isDue = this.#afterCalls(headStart);
    const answers = this.#survivors.map((survivor) => this.#finish(survivor, version));
    answers.push(this.#save(writer, 'writer', version));
    await isDue;
    answers.push(this.#save(rival, 'rival', version));
    const settled = await Promise.all(answers);
    const winner = await this.#committedBy(version);
    judge(version, settled, winner);
    return winner;
  }

  /** Resolves when the first survivor makes its n-th call from now on, counted from 0. */
  #afterCalls(count: number): Promise<void> {
    return new Promise((resolve) => {
      let left = count;
      this.#onCall = () => {
        if (left-- === 0) resolve();
      };
    });
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
