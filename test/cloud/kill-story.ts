/**
 * Four writers save together. Some of them are killed, and other processes continue from what is
 * left.
 */

import { checkInvariants, type Told } from '../crash/invariants.ts';
import { largeFilesOf } from '../crash/large-files.ts';
import { Writer } from '../crash/writer.ts';
import type { Answer, Halt, SaveOrder } from '../crash/writer-messages.ts';
import type { Cloud } from '../servers/clouds.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { viewOfRun } from './run-view.ts';

export const RANKS = [0, 1, 2, 3] as const;

const MIB = 1024 * 1024;
/** The smallest part size that every provider accepts. */
const PART_BYTES = 5 * MIB;
/** Makes two parts. */
const LARGE_BYTES = PART_BYTES + 70_000;
/** Fits in one request. */
const SMALL_BYTES = 70_000;

/**
 * Rank 0 sends its last bytes after the others have delivered, so it commits. Ranks in `first` join
 * before the others begin.
 */
export interface Story {
  readonly first: readonly number[];
  /** Halts by rank. */
  readonly halts: Readonly<Record<number, Halt>>;
  /** Ranks whose files need more than one request. */
  readonly large: readonly number[];
  /**
   * `restart`: the ranks that died start again in the same attempt. `takeover`: a new attempt saves
   * the next version.
   */
  readonly ending: 'restart' | 'takeover';
}

/**
 * Writers that survive their saves, one for each rank, and one started in advance that will be
 * killed.
 */
export class Cast {
  readonly cloud: Cloud;
  readonly #env: Readonly<Record<string, string>>;
  readonly healthy: readonly Writer[];
  #next: Writer;

  constructor(cloud: Cloud, env: Readonly<Record<string, string>>) {
    this.cloud = cloud;
    this.#env = env;
    this.healthy = RANKS.map(() => new Writer(env));
    this.#next = new Writer(env);
  }

  victim(): Writer {
    const victim = this.#next;
    this.#next = new Writer(this.#env);
    return victim;
  }

  async end(): Promise<void> {
    await Promise.all([...this.healthy, this.#next].map((writer) => writer.end()));
  }
}

/**
 * Resolves to the answers of the first attempt by rank, with `undefined` for a killed writer.
 * Throws if an invariant is violated.
 */
export async function play(run: TestBucket, cast: Cast, story: Story): Promise<(Answer | undefined)[]> {
  const told: Told[] = [];
  const save = (
    writer: Writer,
    rank: number,
    more: Pick<SaveOrder, 'attempt' | 'version'> & Partial<SaveOrder>,
  ) => {
    const largeBytes = sizeOf(story, rank);
    const order = {
      uri: run.uri,
      index: rank,
      count: RANKS.length,
      largeBytes,
      partSizeBytes: PART_BYTES,
      ...more,
    };
    const saving = writer.save(order);
    const noted = saving.told.then((answer) => {
      const { attempt, version } = more;
      told.push({ attempt, version, writer: rank, outcome: answer?.outcome ?? 'killed' });
      return answer;
    });
    return { ...saving, told: noted };
  };
  const victims: Writer[] = [];
  const begin = (rank: number) => {
    const halt = story.halts[rank];
    const writer = halt ? cast.victim() : (cast.healthy[rank] as Writer);
    if (halt) victims.push(writer);
    return save(writer, rank, { attempt: 'job-0', version: 1n, isHeld: rank === 0, halt });
  };

  const savings = new Map(story.first.map((rank) => [rank, begin(rank)]));
  await Promise.all([...savings.values()].map(({ joined }) => joined));
  for (const rank of RANKS) if (!savings.has(rank)) savings.set(rank, begin(rank));
  const held = savings.get(0);
  await Promise.all([...savings.values()].filter((each) => each !== held).map(({ delivered }) => delivered));
  held?.letGo();

  const dead: number[] = [];
  for (const rank of Object.keys(story.halts).map(Number))
    if ((await savings.get(rank)?.told) === undefined) dead.push(rank);
  const isTakenOver = dead.length > 0 && story.ending === 'takeover';
  const next = isTakenOver
    ? RANKS.map((rank) => save(cast.healthy[rank] as Writer, rank, { attempt: 'job-1', version: 2n }))
    : dead.map((rank) => save(cast.healthy[rank] as Writer, rank, { attempt: 'job-0', version: 1n }));
  const answers = await Promise.all(RANKS.map((rank) => savings.get(rank)?.told));
  const goneOn = await Promise.all(next.map((saving) => saving.told));
  await Promise.all(victims.map((victim) => victim.end()));

  assertCommitted(isTakenOver ? goneOn : answers);
  // A restarted writer may find that its former life's delivery is already committed.
  for (const answer of isTakenOver ? [] : goneOn)
    if (!['Fenced', 'Conflict'].includes(answer?.outcome ?? '')) assertCommitted([answer]);
  const written = (attempt: string, version: bigint, rank: number) =>
    largeFilesOf(attempt, version, rank, sizeOf(story, rank));
  await checkInvariants(await viewOfRun(cast.cloud, run), told, written);
  return answers;
}

function sizeOf(story: Story, rank: number): number {
  return story.large.includes(rank) ? LARGE_BYTES : SMALL_BYTES;
}

/** I10: the continuing writers get their checkpoint, whatever was left. */
function assertCommitted(answers: readonly (Answer | undefined)[]): void {
  for (const answer of answers) {
    if (answer === undefined || answer.outcome === 'committed') continue;
    throw new Error(`I10: a writer that was not killed was told ${answer.outcome}: ${answer.message}`);
  }
}
