import {
  CheckpointError,
  checkOptions,
  optional,
  type Rules,
  TIMER_MS_MAX,
  text,
  wholeNumber,
} from '@holdfast/core/contract';
import type { Coordinator, World } from '../coordinator.ts';
import { CoordinatorDefaults } from '../coordinator-defaults.ts';
import { StopException } from '../errors.ts';
import type { State } from '../state.ts';
import { ETCD_OPTIONS, type EtcdCall, EtcdClient, type EtcdOptions } from './client.ts';
import { EtcdWorld } from './etcd-world.ts';
import {
  checkSamePolicy,
  MeetingKeys,
  type MeetingRecords,
  type Member,
  meetingOf,
  nextMembers,
  type WorldSizes,
} from './meeting.ts';
import { untilAnswered } from './patience.ts';
import { EtcdSession, isLeaseEnd } from './session.ts';

/** torchelastic's limits for a rendezvous and for the last call. */
const TIMEOUT_MS = 600_000;
const LAST_CALL_MS = 5000;
const PRESENCE_SECONDS = 10;
/** Each waiting worker reads the records of all others, several times a second. */
const WORKERS_MAX = 256;

export interface EtcdCoordinatorOptions extends EtcdOptions {
  /**
   * Prefix of all keys of these workers in etcd; not empty. Use one for each job: once its training
   * is over, no worker can join under it.
   */
  readonly prefix: string;
  /** 1 to `maxWorkers`. */
  readonly minWorkers: number;
  /** Further workers wait until one leaves. At most 256. */
  readonly maxWorkers: number;
  /**
   * How long a worker waits for the others, in milliseconds. It must be longer than any step.
   * Default 600,000.
   */
  readonly timeoutMs?: number | undefined;
  /**
   * How long to wait for further workers once enough are present, counted from the last arrival, in
   * milliseconds. Default 5,000.
   */
  readonly lastCallMs?: number | undefined;
  /** A worker counts as gone when it was not heard of for this many seconds. Whole; default 10. */
  readonly presenceSeconds?: number | undefined;
}

interface Settings extends WorldSizes {
  readonly timeoutMs: number;
  readonly lastCallMs: number;
  readonly presenceSeconds: number;
}

/**
 * Workers on any number of machines that meet through an etcd; all must have the same options.
 *
 * A world begins when all present workers wait for it and one of these holds: they are at least
 * `minWorkers` and no other came for `lastCallMs`, or they are `maxWorkers`. The worker that has
 * been present longest is rank 0; workers that stay keep their order. A rank passes at most 1 MiB
 * to an `allGather`; more is `InvalidArgument`.
 *
 * A process that is killed or frozen counts as gone after `presenceSeconds`. A frozen one joins as
 * a new worker when it resumes. All waiting is done by polling etcd: each worker sends five to
 * forty requests a second while it waits, and three after a step. Two small keys stay in etcd for
 * good.
 */
export class EtcdCoordinator extends CoordinatorDefaults implements Coordinator, AsyncDisposable {
  readonly #client: EtcdClient;
  readonly #keys: MeetingKeys;
  readonly #settings: Settings;
  #session: EtcdSession | null = null;
  #world: EtcdWorld | null = null;
  #isStopped = false;

  /**
   * Sends no request yet. `InvalidArgument`: an option is out of range. `InvalidConfig`: an
   * endpoint is not valid.
   */
  constructor(options: EtcdCoordinatorOptions) {
    super();
    this.#settings = settingsOf(options);
    this.#client = new EtcdClient(options);
    this.#keys = new MeetingKeys(options.prefix);
  }

  /** The world of the last rendezvous, for use in `State.sync` and in steps. */
  get world(): World {
    if (this.#world !== null) return this.#world;
    throw new CheckpointError('InvalidArgument', 'there is no world before the first rendezvous');
  }

  /**
   * `TimedOut`: fewer than `minWorkers` came, a present worker did not join, there was no room for
   * this worker, or etcd did not answer. `InvalidArgument`: another worker has a different
   * `minWorkers` or `maxWorkers`. `Denied`, `StorageFull`: reported by etcd.
   */
  async rendezvous(): Promise<World> {
    this.#world?.leave();
    if (this.#isStopped) throw new StopException('training is over');
    const lastCall = new LastCall();
    const patience = { timeoutMs: this.#settings.timeoutMs, what: 'no world began' };
    try {
      this.#world = await untilAnswered(this.#client, patience, (call) => this.#tryMeeting(lastCall, call));
      return this.#world;
    } catch (error) {
      // The other workers must not wait for this one.
      await this.#session?.close();
      throw error;
    }
  }

  /**
   * True on all ranks after the same step, so that no rank has to go back, unless a rank is gone.
   */
  async shouldRendezvous(_state: State): Promise<boolean> {
    return this.#world === null || (await this.#world.isNewWorldDue());
  }

  shouldStopTraining(): boolean {
    return this.#isStopped;
  }

  /** Fails as `rendezvous` does, but does not wait for others. */
  async signalTrainingDone(): Promise<void> {
    this.#isStopped = true;
    this.#world?.leave();
    const patience = { timeoutMs: this.#settings.timeoutMs, what: 'the end was not written' };
    await untilAnswered(this.#client, patience, async (call) => {
      await this.#client.change([], [{ put: this.#keys.over, value: new Uint8Array() }], call);
      return true;
    });
    await this.#session?.close();
  }

  /** Tells the others at once that this worker is gone. Safe to repeat. */
  async close(): Promise<void> {
    this.#isStopped = true;
    this.#world?.leave();
    await this.#session?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** `null`: the world has not begun yet. */
  async #tryMeeting(lastCall: LastCall, call: EtcdCall): Promise<EtcdWorld | null> {
    try {
      return await this.#meet(lastCall, call);
    } catch (error) {
      if (!isLeaseEnd(error)) throw error;
      // The next try opens a new session.
      this.#session?.abandon();
      return null;
    }
  }

  async #meet(lastCall: LastCall, call: EtcdCall): Promise<EtcdWorld | null> {
    const session = await this.#openSession(call);
    const meeting = await this.#readMeeting(call);
    if (meeting.isOver) {
      this.#isStopped = true;
      throw new StopException('training is over');
    }
    checkSamePolicy(meeting, this.#settings);
    const { world, members } = meeting;
    const present = members.get(session.id);
    const isMet =
      present !== undefined && present.waitsAbove < world.seq && world.members.includes(session.id);
    const isNew = this.#world === null || this.#world.seq < world.seq;
    if (isMet && isNew) return await this.#enter(session, meeting, call);
    if (present === undefined || present.waitsAbove < world.seq) await this.#wait(session, world.seq, call);
    else await this.#tryBeginning(meeting, lastCall, call);
    return null;
  }

  async #openSession(call: EtcdCall): Promise<EtcdSession> {
    if (this.#session !== null && !this.#session.isLost) return this.#session;
    const { presenceSeconds, timeoutMs } = this.#settings;
    // The worker's bytes must stay as long as another worker may wait for the rest and then read
    // them.
    const giftSeconds = presenceSeconds + Math.ceil(timeoutMs / 1000);
    this.#session?.abandon();
    this.#session = await EtcdSession.open(this.#client, { presenceSeconds, giftSeconds }, call);
    return this.#session;
  }

  async #readMeeting(call: EtcdCall): Promise<MeetingRecords> {
    return meetingOf(await this.#client.range(this.#keys.meeting, true, call), this.#keys);
  }

  async #wait(session: EtcdSession, waitsAbove: number, call: EtcdCall): Promise<void> {
    const { minWorkers, maxWorkers } = this.#settings;
    const member: Member = { minWorkers, maxWorkers, waitsAbove };
    const put = `${this.#keys.members}${session.id}`;
    await this.#client.change([], [{ put, value: jsonBytes(member), lease: session.presence }], call);
  }

  /** Tries to begin a world for all that wait. One of the workers succeeds. */
  async #tryBeginning(meeting: MeetingRecords, lastCall: LastCall, call: EtcdCall): Promise<void> {
    const { world, worldRevision } = meeting;
    const { lastCallMs, maxWorkers } = this.#settings;
    const next = nextMembers(meeting, this.#settings);
    const calledMs = lastCall.unchangedMs(next ?? [], this.#client.clock.monotonicMs());
    if (next === null || (next.length < maxWorkers && calledMs < lastCallMs)) return;
    const unchanged = [
      { key: this.#keys.world, modRevision: worldRevision },
      { key: this.#keys.over, modRevision: 0n },
    ];
    const value = jsonBytes({ seq: world.seq + 1, members: next });
    await this.#client.change(unchanged, [{ put: this.#keys.world, value }], call);
  }

  async #enter(session: EtcdSession, meeting: MeetingRecords, call: EtcdCall): Promise<EtcdWorld> {
    const keys = this.#keys;
    const { world: met } = meeting;
    const readMeeting = (each: EtcdCall) => this.#readMeeting(each);
    const { timeoutMs } = this.#settings;
    const world = new EtcdWorld({
      client: this.#client,
      keys,
      session,
      policy: this.#settings,
      timeoutMs,
      met,
      readMeeting,
    });
    // All workers have left the earlier worlds, so the bytes stored there are no longer needed.
    if (world.rank === 0) {
      await this.#client.change([], [{ remove: keys.group(0), below: keys.group(met.seq) }], call);
    }
    return world;
  }
}

/** Measures for how long the same workers have been waiting. */
class LastCall {
  #waiting = '';
  #sinceMs = 0;

  unchangedMs(members: readonly string[], nowMs: number): number {
    const waiting = members.join();
    if (waiting !== this.#waiting) this.#sinceMs = nowMs;
    this.#waiting = waiting;
    return nowMs - this.#sinceMs;
  }
}

function jsonBytes(value: object): Uint8Array {
  return Buffer.from(JSON.stringify(value), 'utf8');
}

const OPTIONS: Rules<EtcdCoordinatorOptions> = {
  ...ETCD_OPTIONS,
  prefix: text,
  maxWorkers: wholeNumber(1, WORKERS_MAX),
  minWorkers: wholeNumber(1, WORKERS_MAX),
  timeoutMs: optional(wholeNumber(1, TIMER_MS_MAX)),
  lastCallMs: optional(wholeNumber(0, TIMER_MS_MAX)),
  presenceSeconds: optional(wholeNumber(1, 3600)),
};

function settingsOf(options: EtcdCoordinatorOptions): Settings {
  checkOptions(options, OPTIONS);
  const { minWorkers, maxWorkers } = options;
  const { timeoutMs = TIMEOUT_MS, lastCallMs = LAST_CALL_MS, presenceSeconds = PRESENCE_SECONDS } = options;
  wholeNumber(1, maxWorkers)('minWorkers', minWorkers);
  wholeNumber(0, timeoutMs)('lastCallMs', lastCallMs);
  return { minWorkers, maxWorkers, timeoutMs, lastCallMs, presenceSeconds };
}
