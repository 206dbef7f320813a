import {
  byteArray,
  CheckpointError,
  checkSome,
  isCheckpointError,
  optional,
  type Rules,
  TIMER_MS_MAX,
  text,
  wholeNumber,
} from '@holdfast/core/contract';
import type { Coordinator, World } from '../coordinator.ts';
import { CoordinatorDefaults } from '../coordinator-defaults.ts';
import { RecoverableError, StopException } from '../errors.ts';
import type { State } from '../state.ts';
import type { Answer } from './answers.ts';
import { Connection } from './connection.ts';
import { BODY_BYTES_MAX } from './frames.ts';
import { checkPolicy, type Policy } from './policy.ts';
import type { GroupCall } from './running-world.ts';

const HOST = '127.0.0.1';
/** torchelastic's limit for a rendezvous. */
const TIMEOUT_MS = 600_000;
/**
 * The server decides within one `timeoutMs`, or two if a world ends while this worker waits for
 * room. The third is for the answer.
 */
const TIMEOUTS_UNTIL_ANSWER = 3;

export interface MultiProcessOptions {
  /** Default 127.0.0.1, where `RendezvousServer` listens. */
  readonly host?: string | undefined;
  readonly port: number;
  readonly minWorkers: number;
  readonly maxWorkers: number;
  /**
   * How long a worker waits for the others, in milliseconds. A worker that does not come to a group
   * call or a rendezvous in this time counts as gone. It must be longer than any step and any save.
   * Default 600,000.
   */
  readonly timeoutMs?: number | undefined;
}

/** `Policy` has the numbers of workers and the timeout. */
const OPTIONS: Rules<Pick<MultiProcessOptions, 'host' | 'port'>> = {
  host: optional(text),
  port: wholeNumber(1, 65_535),
};

interface Target {
  readonly host: string;
  readonly port: number;
}

/**
 * Several processes of one machine that meet at a `RendezvousServer`; all must have the same
 * options. A world begins when all connected workers have come and one of these holds: they are at
 * least `minWorkers` and no other came for the server's last call, or they are `maxWorkers`. The
 * worker that has been connected longest is rank 0; workers that stay keep their order. Workers
 * beyond `maxWorkers` wait until another leaves.
 *
 * The bytes of all ranks in one `allGather` may be 1 GiB together; more is `InvalidArgument` on all
 * ranks.
 *
 * A frozen process delays the others by one `timeoutMs`, and joins as a new worker when it resumes.
 */
export class MultiProcessCoordinator extends CoordinatorDefaults implements Coordinator, AsyncDisposable {
  readonly #target: Target;
  readonly #policy: Policy;
  #connection: Connection;
  #world: GroupCalls | null = null;
  #isStopped = false;

  /**
   * Connects; from then on the worker counts as present. `InvalidArgument`: an option is out of
   * range, or differs from that of the other workers. `Unavailable`: there is no server.
   * `TimedOut`: the server does not answer.
   */
  static async connect(options: MultiProcessOptions): Promise<MultiProcessCoordinator> {
    checkSome(options, OPTIONS);
    const { minWorkers, maxWorkers, timeoutMs = TIMEOUT_MS } = options;
    const policy = { minWorkers, maxWorkers, timeoutMs };
    checkPolicy(policy);
    const target = { host: options.host ?? HOST, port: options.port };
    return new MultiProcessCoordinator(target, policy, await join(target, policy));
  }

  private constructor(target: Target, policy: Policy, connection: Connection) {
    super();
    this.#target = target;
    this.#policy = policy;
    this.#connection = connection;
  }

  /** The world of the last rendezvous, for use in `State.sync` and in steps. */
  get world(): World {
    if (this.#world !== null) return this.#world;
    throw new CheckpointError('InvalidArgument', 'there is no world before the first rendezvous');
  }

  /**
   * `TimedOut`: fewer than `minWorkers` came, or there was no room for this worker. Connects again
   * if the connection was lost, as when the server has expelled this worker.
   */
  async rendezvous(): Promise<World> {
    this.#world?.leave();
    if (this.#isStopped) throw new StopException('training is over');
    try {
      if (!this.#connection.isOpen) this.#connection = await join(this.#target, this.#policy);
      const { rank, size } = expectOutcome(await this.#connection.call({ type: 'rendezvous' }), 'world');
      this.#world = new GroupCalls(this.#connection, rank, size);
      return this.#world;
    } catch (error) {
      this.#isStopped ||= error instanceof StopException;
      throw error;
    }
  }

  /** The server answers the same to all ranks after the same step, so no rank has to go back. */
  async shouldRendezvous(_state: State): Promise<boolean> {
    return this.#world === null || this.#world.isNewWorldDue();
  }

  shouldStopTraining(): boolean {
    return this.#isStopped;
  }

  async signalTrainingDone(): Promise<void> {
    this.#isStopped = true;
    this.#world?.leave();
    // The other workers must learn of the end even if the server has expelled this one.
    if (!this.#connection.isOpen) this.#connection = await join(this.#target, this.#policy);
    expectOutcome(await this.#connection.call({ type: 'finish' }), 'done');
  }

  /** Tells the others at once that this worker is gone. Safe to repeat. */
  async close(): Promise<void> {
    this.#isStopped = true;
    this.#world?.leave();
    this.#connection.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

async function join({ host, port }: Target, policy: Policy): Promise<Connection> {
  const timeoutMs = Math.min(TIMEOUTS_UNTIL_ANSWER * policy.timeoutMs, TIMER_MS_MAX);
  const connection = await Connection.open({ host, port, timeoutMs });
  try {
    expectOutcome(await connection.call({ type: 'join', ...policy }), 'done');
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

class GroupCalls implements World {
  readonly rank: number;
  readonly size: number;
  readonly #connection: Connection;
  #gatherCount = 0;
  #voteCount = 0;
  #isOver = false;

  constructor(connection: Connection, rank: number, size: number) {
    this.#connection = connection;
    this.rank = rank;
    this.size = size;
  }

  async allGather(bytes: Uint8Array): Promise<readonly Uint8Array[]> {
    return this.#gather('allGather', bytes);
  }

  async barrier(): Promise<void> {
    await this.#gather('barrier', new Uint8Array());
  }

  async isNewWorldDue(): Promise<boolean> {
    if (this.#isOver) return true;
    try {
      const answer = await this.#connection.call({ type: 'vote', seq: this.#voteCount++ });
      return expectOutcome(answer, 'vote').isDue;
    } catch {
      // Without the server this worker is in no world; the rendezvous reports the problem.
      return true;
    }
  }

  leave(): void {
    this.#isOver = true;
  }

  async #gather(call: GroupCall, bytes: Uint8Array): Promise<readonly Uint8Array[]> {
    if (this.#isOver) throw new RecoverableError('this world has ended: there was another rendezvous');
    byteArray('bytes', bytes);
    wholeNumber(0, BODY_BYTES_MAX)('the number of bytes', bytes.length);
    try {
      const answer = await this.#connection.call({ type: 'gather', call, seq: this.#gatherCount++ }, bytes);
      return expectOutcome(answer, 'gathered').parts;
    } catch (error) {
      // The next rendezvous finds out whether the server is gone for good.
      if (isCheckpointError(error, 'TimedOut')) throw new RecoverableError(error.message, { cause: error });
      throw error;
    }
  }
}

function expectOutcome<O extends Answer['outcome']>(
  answer: Answer,
  outcome: O,
): Extract<Answer, { readonly outcome: O }> {
  if (answer.outcome === outcome) return answer as Extract<Answer, { readonly outcome: O }>;
  throw new CheckpointError('Unexpected', `the rendezvous server answered ${answer.outcome}, not ${outcome}`);
}
