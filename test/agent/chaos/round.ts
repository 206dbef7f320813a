/** Plays a round: a job, the faults of its plan, and the look of a fresh agent at what is left. */

import { setTimeout as sleep } from 'node:timers/promises';
import { committedVersions, contentsOf } from './contents.ts';
import { Job, type Life, type Told } from './job.ts';
import type { AgentLine, Machine } from './machine.ts';
import type { Fault, Moment, RoundPlan } from './plan.ts';
import { breachesOf, type FoundVersion, lateness, stagedByAll } from './verdict.ts';
import { monotonicMs, type WatchedProcess } from './watched-process.ts';

/** A fault whose moment does not come begins then. */
const MOMENT_MS = 2000;
/** How long a job may still save after the last fault. */
const REST_MS = 4000;
/** Generous: a busy machine is no mistake. */
const SETTLE_MS = 30_000;
const LOOK_MS = 20;
/** Saved at the end, by a new attempt. */
const LAST_VERSION = 1_000_000;

export interface Outcome {
  readonly plan: RoundPlan;
  /** Empty if all went as it should. */
  readonly breaches: readonly string[];
  /** Each line of ranks and agents, and each fault, in the order of their arrival. */
  readonly history: readonly string[];
  readonly versions: number;
  readonly toldCount: number;
  readonly latestMs: number;
}

export interface Place {
  readonly machine: Machine;
  readonly uri: string;
  readonly python: string;
  readonly slackMs: number;
}

export async function playRound(plan: RoundPlan, place: Place): Promise<Outcome> {
  return new Round(plan, place).play();
}

class Round {
  readonly #plan: RoundPlan;
  readonly #place: Place;
  readonly #job: Job;
  readonly #history: string[] = [];
  readonly #breaches: string[] = [];
  readonly #logged: number[] = [];
  readonly #listeners = new Set<(from: Moment['from'], event: string) => void>();
  readonly #startedMs = monotonicMs();

  constructor(plan: RoundPlan, place: Place) {
    this.#plan = plan;
    this.#place = place;
    this.#job = new Job({
      ...{ ...place, plan },
      onTold: (told) => this.#noteRank(told),
      onComplaint: (line) => this.#note(line),
    });
  }

  async play(): Promise<Outcome> {
    const { machine } = this.#place;
    machine.onLine = (line) => this.#noteAgent(line);
    let found: FoundVersion[] = [];
    try {
      await this.#startAgent();
      this.#job.startAll();
      for (const fault of this.#plan.faults) await this.#strike(fault);
      await this.#endRanks();
      found = await this.#settle();
    } catch (error) {
      this.#breaches.push(`the round itself failed: ${error instanceof Error ? error.stack : String(error)}`);
      for (const { process } of this.#job.running) await process.kill();
      await machine.agent?.kill();
    }
    const facts = {
      ...{ rankCount: this.#plan.rankCount, lives: this.#job.lives, told: this.#job.told },
      ...{ found, logged: this.#logged, slackMs: this.#place.slackMs },
    };
    this.#breaches.push(...breachesOf(facts));
    return {
      plan: this.#plan,
      breaches: this.#breaches,
      history: this.#history,
      versions: found.length,
      toldCount: this.#job.told.filter(({ event }) => event === 'committed').length,
      latestMs: Math.max(0, ...lateness(facts).map(({ lateMs }) => lateMs)),
    };
  }

  async #startAgent(): Promise<void> {
    const { machine } = this.#place;
    const before = machine.agent;
    if (before && !before.isRunning && !before.isMeantToEnd)
      this.#breaches.push(`an agent ended by itself with ${JSON.stringify(before.ending)}`);
    await machine.startAgent();
  }

  async #strike(fault: Fault): Promise<void> {
    await this.#moment(fault.at);
    await sleep(fault.at.delayMs);
    const { lives, processes } = this.#victims(fault);
    this.#note(`${fault.signal} for ${fault.target} (${processes.length} processes)`);
    for (const process of processes) process.signal(fault.signal);
    const isFrozen = fault.signal === 'SIGSTOP';
    const goesOn = isFrozen && fault.afterFreeze === 'SIGCONT';
    if (goesOn) await this.#succeed(fault, lives);
    if (isFrozen) {
      await sleep(fault.frozenMs);
      this.#note(`${fault.afterFreeze} for them`);
      for (const process of processes) process.signal(fault.afterFreeze);
    }
    if (goesOn) return;
    await Promise.all(processes.map(({ ended }) => ended));
    await sleep(fault.pauseMs);
    await this.#restartAgent(fault);
    await this.#succeed(fault, lives);
  }

  async #restartAgent({ killedAtStartMs }: Fault): Promise<void> {
    const { machine } = this.#place;
    if (machine.agent?.isRunning) return;
    if (killedAtStartMs !== null) {
      const starting = this.#startAgent();
      await sleep(killedAtStartMs);
      this.#note('SIGKILL for an agent that starts');
      await machine.agent?.kill();
      await starting;
    }
    await this.#startAgent();
  }

  #victims({ target, rank }: Fault): { lives: readonly Life[]; processes: readonly WatchedProcess[] } {
    const { running } = this.#job;
    const lives =
      target === 'agent' ? [] : target === 'rank' ? running.filter((life) => life.rank === rank) : running;
    const agent = this.#place.machine.agent;
    const isAgentToo = target === 'agent' || target === 'both';
    const processes = [...(isAgentToo && agent ? [agent] : []), ...lives.map(({ process }) => process)];
    return { lives, processes: processes.filter(({ isRunning }) => isRunning) };
  }

  async #succeed({ successor }: Fault, lives: readonly Life[]): Promise<void> {
    if (lives.length === 0 || successor === 'none') return;
    this.#note(`successors: ${successor}`);
    if (successor === 'life') {
      for (const rank of new Set(lives.map((life) => life.rank))) this.#job.start(rank);
      return;
    }
    if (successor === 'attempt')
      await Promise.all(
        this.#job.running.filter((life) => !lives.includes(life)).map(({ process }) => process.kill()),
      );
    this.#job.startAll();
  }

  /** Resolves at the line of a moment, when no rank runs, or when it has not come for a while. */
  async #moment({ from, event, count }: Moment): Promise<void> {
    const reached = Promise.withResolvers<void>();
    let left = count;
    const listener = (where: string, what: string) => {
      if (where !== from || what !== event) return;
      left -= 1;
      if (left === 0) reached.resolve();
    };
    this.#listeners.add(listener);
    const ended = Promise.all(this.#job.running.map(({ process }) => process.ended));
    await Promise.race([reached.promise, ended, sleep(MOMENT_MS)]);
    this.#listeners.delete(listener);
  }

  async #endRanks(): Promise<void> {
    const untilMs = monotonicMs() + REST_MS;
    const isWorthWaiting = () =>
      this.#job.running.length > 0 && monotonicMs() < untilMs && !this.#isStranded();
    while (isWorthWaiting()) await sleep(LOOK_MS);
    if (this.#job.running.length > 0) this.#note('the rest of the ranks is killed');
    await Promise.all(this.#job.running.map(({ process }) => process.kill()));
  }

  /** A rank that was killed before it had done its work leaves the others waiting. */
  #isStranded(): boolean {
    const { lives, told, missingRanks, attempt } = this.#job;
    return missingRanks.some((rank) => {
      const life = lives.findLastIndex((one) => one.rank === rank && one.attempt === attempt);
      return !told.some((one) => one.life === life && one.event === 'done');
    });
  }

  /** What a fresh agent makes of it. */
  async #settle(): Promise<FoundVersion[]> {
    const { machine, uri } = this.#place;
    machine.agent?.signal('SIGCONT');
    this.#note(`${this.#plan.lastSignal} for the last agent`);
    machine.agent?.signal(this.#plan.lastSignal);
    await machine.agent?.ended;
    await this.#startAgent();
    return machine.withClient(async (client) => {
      const expected =
        this.#plan.isInMemory && this.#plan.saveTimeoutMs === null ? stagedByAll(this.#facts()) : [];
      const missing = async () => {
        const versions = await committedVersions(client, uri);
        return expected.filter((version) => !versions.includes(version));
      };
      await this.#until(
        async () => (await missing()).length === 0,
        async () => `versions ${await missing()} were staged by all writers, and are not committed`,
      );
      const last = await client.trainer(uri, { attempt: 'the last' });
      await last.listen();
      const { state, error } = await last.save(LAST_VERSION);
      if (state !== 'committed') this.#breaches.push(`a new attempt cannot save: ${JSON.stringify(error)}`);
      await client.call('leave', { path: { writerId: last.writerId } });
      last.die();
      await this.#until(
        async () => machine.staged().length === 0,
        async () => `the staging directory still holds ${machine.staged().join(', ')}`,
      );
      if (machine.litter().length > 0)
        this.#breaches.push(`beside the socket there are ${machine.litter().join(', ')}`);
      return contentsOf(client, uri, LAST_VERSION - 1);
    });
  }

  #facts() {
    return { lives: this.#job.lives, told: this.#job.told, rankCount: this.#plan.rankCount };
  }

  async #until(condition: () => Promise<boolean>, breach: () => Promise<string>): Promise<void> {
    const untilMs = monotonicMs() + SETTLE_MS;
    while (!(await condition())) {
      if (monotonicMs() > untilMs) {
        this.#breaches.push(await breach());
        return;
      }
      await sleep(LOOK_MS);
    }
  }

  #noteRank({ life, event, atMs: _, ...fields }: Told): void {
    const { rank, attempt } = this.#job.lives[life] ?? {};
    this.#note(`rank ${rank} (life ${life}, attempt ${attempt}): ${event} ${JSON.stringify(fields)}`);
    for (const listener of this.#listeners) listener('rank', event);
  }

  #noteAgent(line: AgentLine): void {
    const { message, event, run, version, level, time: _, ...fields } = line;
    this.#note(`agent: ${message ?? event} ${JSON.stringify({ version, ...fields })}`);
    if (level === 'error' || level === 'text') this.#breaches.push(`the agent says: ${JSON.stringify(line)}`);
    const isOfRun = run === this.#place.uri && Number(version) < LAST_VERSION;
    if (message === 'save committed' && isOfRun) this.#logged.push(Number(version));
    for (const listener of this.#listeners) listener('agent', message ?? '');
  }

  #note(text: string): void {
    const atMs = Math.round(monotonicMs() - this.#startedMs);
    this.#history.push(`${String(atMs).padStart(6)} ${text}`);
  }
}
