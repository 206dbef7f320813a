/**
 * The model of the scenarios: the sum of the numbers 11 to 30. The ranks of a world share the
 * remaining numbers in turn: rank r of n takes each n-th, beginning with the r-th. The reached
 * index of all is the highest index that any of them has seen.
 */

import { RecoverableError, State, StopIteration, type World } from '@holdfast/training';

const DATA = Array.from({ length: 20 }, (_, index) => 11 + index);

export interface SumSnapshot {
  readonly totalSum: number;
  readonly reachedIndex: number;
}

export class SumState extends State<SumSnapshot> {
  totalSum = 0;
  readonly samples: number[] = [];
  rank = -1;
  readonly #world: () => World;
  readonly #savesEachStep: boolean;
  #reachedIndex = -1;
  #nextIndex = 0;

  constructor(world: () => World, { savesEachStep }: { savesEachStep: boolean }) {
    super();
    this.#world = world;
    this.#savesEachStep = savesEachStep;
  }

  /** Adds the next numbers of all ranks to the sum. */
  async trainOnce(): Promise<void> {
    const sample = DATA[this.#nextIndex];
    if (sample === undefined) throw new StopIteration('no data left');
    const index = this.#nextIndex;
    this.#nextIndex += this.#world().size;
    this.#reachedIndex = Math.max(...(await allOf(this.#world(), [index])).flat());
    const sum = (await allOf(this.#world(), [sample])).flat().reduce((total, each) => total + each, 0);
    this.totalSum += sum;
    this.samples.push(sample);
  }

  override async sync(_worldSize: number, rank: number): Promise<void> {
    const all = await allOf(this.#world(), [this.totalSum, this.#reachedIndex]);
    this.totalSum = Math.max(...all.map(([totalSum = 0]) => totalSum));
    this.#reachedIndex = Math.max(...all.map(([, index = -1]) => index));
    this.#nextIndex = this.#reachedIndex + 1 + rank;
    this.rank = rank;
  }

  override snapshot(): SumSnapshot | null {
    return { totalSum: this.totalSum, reachedIndex: this.#reachedIndex };
  }

  override apply(snapshot: SumSnapshot | null): void {
    if (snapshot === null) return;
    this.totalSum = snapshot.totalSum;
    this.#reachedIndex = snapshot.reachedIndex;
  }

  override shouldSaveCheckpoint(): boolean {
    return this.#savesEachStep;
  }
}

/** A state without rollback. */
export class SumStateWithoutRollback extends SumState {
  override snapshot(): null {
    return null;
  }
}

/**
 * Its third `sync` fails. That is the one after the second step if workers meet after each step.
 */
export class SumStateFailingThirdSync extends SumState {
  #syncCount = 0;

  override async sync(worldSize: number, rank: number): Promise<void> {
    this.#syncCount += 1;
    if (this.#syncCount === 3) throw new RecoverableError('the third sync fails');
    await super.sync(worldSize, rank);
  }
}

/** The numbers of all ranks, by rank. */
async function allOf(world: World, numbers: readonly number[]): Promise<number[][]> {
  const parts = await world.allGather(Buffer.from(JSON.stringify(numbers)));
  return parts.map((part) => JSON.parse(Buffer.from(part).toString()) as number[]);
}
