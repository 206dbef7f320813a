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
  type Meeting,
  MeetingKeys,
  type Member,
  meetingOf,
  nextMembers,
  type Policy,
} from './meeting.ts';
import { untilAnswered } from './patience.ts';
import { EtcdSession, isLeaseEnd } from './session.ts';

/** torchelastic's: of a rendezvous, and of the last call. */
const TIMEOUT_MS = 600_000;
const LAST_CALL_MS = 5000;
const PRESENCE_SECONDS = 10;
/** Each that waits reads of all others, some times a second. */
const WORKERS_MAX = 256;

export interface EtcdCoordinatorOptions extends EtcdOptions {
  /** Before all keys of these workers in etcd; not empty. One for each job: once its training is over nobody joins under it any more. */
  readonly prefix: string;
  /** 1 to `maxWorkers`. */
  readonly minWorkers: number;
  /** More than these wait until somebody leaves. At most 256. */
  readonly maxWorkers: number;
  /** How long anybody waits for anybody: longer than any step. 600,000 if not given. */
  readonly timeoutMs?: number | undefined;
  /** Once enough are there: how long to wait for others after the last one came. 5,000 if not given. */
  readonly lastCallMs?: number | undefined;
  /** So long after it was last heard of a worker is taken for gone. Whole; 10 if not given. */
  readonly presenceSeconds?: number | undefined;
}

interface Settings extends Policy {
  readonly timeoutMs: number;
  readonly lastCallMs: number;
  readonly presenceSeconds: number;
}

/**
 * Workers on any number of machines, which meet by an etcd; all with the same options. A world begins when all that are there wait for it, if they
 * are `minWorkers`, and no other one came for `lastCallMs`, or they are `maxWorkers`. Whoever has been there longest is rank 0; those who stay
 * keep their order. A rank brings at most 1 MiB to an `allGather`; more is `InvalidArgument`.
 *
 * A process that is killed or frozen is missed after `presenceSeconds`; a frozen one joins as a new one when it goes on. Everything asks etcd
 * again and again, each worker five to forty times a second while it waits, and three times after a step. Two small keys stay in etcd for good.
 */
export class EtcdCoordinator extends CoordinatorDefaults implements Coordinator, AsyncDisposable {
  readonly #client: EtcdClient;
  readonly #keys: MeetingKeys;
  readonly #settings: Settings;
  #session: EtcdSession | null = null;
  #world: EtcdWorld | null = null;
  #isStopped = false;

  /** Asks nobody yet. `InvalidArgument`: an option is out of range. `InvalidConfig`: endpoints that are none. */
  constructor(options: EtcdCoordinatorOptions) {
    super();
    this.#settings = settingsOf(options);
    this.#client = new EtcdClient(options);
    this.#keys = new MeetingKeys(options.prefix);
  }

  /** That of the last rendezvous: for `State.sync`, and for steps. */
  get world(): World {
    if (this.#world !== null) return this.#world;
    throw new CheckpointError('InvalidArgument', 'there is no world before the first rendezvous');
  }

  /**
   * `TimedOut`: fewer than `minWorkers` came, one that is there did not come, there was no place for one more, or etcd was away.
   * `InvalidArgument`: another worker has another `minWorkers` or `maxWorkers`. `Denied`, `StorageFull`: etcd says so.
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
      // Those who go on waiting are not to wait for this one.
      await this.#session?.close();
      throw error;
    }
  }

  /** True for all ranks after the same step, so that none of them has to go back; unless one is gone. */
  async shouldRendezvous(_state: State): Promise<boolean> {
    return this.#world === null || (await this.#world.isNewWorldDue());
  }

  shouldStopTraining(): boolean {
    return this.#isStopped;
  }

  /** As `rendezvous`, without the wait for others. */
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

  /** The others hear at once that this worker is gone. Safe to call again. */
  async close(): Promise<void> {
    this.#isStopped = true;
    this.#world?.leave();
    await this.#session?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** `null`: not yet. */
  async #tryMeeting(lastCall: LastCall, call: EtcdCall): Promise<EtcdWorld | null> {
    try {
      return await this.#meet(lastCall, call);
    } catch (error) {
      if (!isLeaseEnd(error)) throw error;
      // The next try begins with a new one.
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
    // What it brought has to be there as long as anybody may wait for others, and then read it.
    const giftSeconds = presenceSeconds + Math.ceil(timeoutMs / 1000);
    this.#session?.abandon();
    this.#session = await EtcdSession.open(this.#client, { presenceSeconds, giftSeconds }, call);
    return this.#session;
  }

  async #readMeeting(call: EtcdCall): Promise<Meeting> {
    return meetingOf(await this.#client.range(this.#keys.meeting, true, call), this.#keys);
  }

  async #wait(session: EtcdSession, waitsAbove: number, call: EtcdCall): Promise<void> {
    const { minWorkers, maxWorkers } = this.#settings;
    const member: Member = { minWorkers, maxWorkers, waitsAbove };
    const put = `${this.#keys.members}${session.id}`;
    await this.#client.change([], [{ put, value: jsonBytes(member), lease: session.presence }], call);
  }

  /** Who tries to begin a world does so for all that wait; one of them does. */
  async #tryBeginning(meeting: Meeting, lastCall: LastCall, call: EtcdCall): Promise<void> {
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

  async #enter(session: EtcdSession, meeting: Meeting, call: EtcdCall): Promise<EtcdWorld> {
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
    // All have left the worlds before: what they brought there is of no use.
    if (world.rank === 0) {
      await this.#client.change([], [{ remove: keys.group(0), below: keys.group(met.seq) }], call);
    }
    return world;
  }
}

/** For how long the same workers have been waiting. */
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
