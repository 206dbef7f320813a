/**
 * `bench agent`: trainers in Python save and load memory by the agent, beside other clients of S3
 * in the same kind of process. Every client does each round in turn, on the same MinIO.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { SETTINGS } from '@holdfast/core';
// @boundaries-ignore it measures the build, as the tests make it
import { BUILD, runStep } from '../../scripts/steps.ts';
import { CLIENTS, type Client, installClients, isInstalled, pythonOf } from './agent-clients.ts';
import { CLIENT, type StartedAgent, startAgent, startTimes } from './agent-start.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { chosen, positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, ratios, type Verdict, verdictTable } from './results.ts';
import { cpuMsOf } from './s3/process-cost.ts';
import { parseShape } from './s3/shapes.ts';
import { clientEnv, minioTarget, type Target } from './s3/targets.ts';
import { spread } from './statistics.ts';

const TRAINER = fileURLToPath(new URL('./peers/agent-trainer.py', import.meta.url));
/** The first saves make segments and connections. */
const WARM_UP_ROUNDS = 2;

interface Saved {
  readonly copySeconds: number;
  readonly blockedSeconds: number;
  readonly wallSeconds: number;
  readonly blockedCpuSeconds: number;
  readonly cpuSeconds: number;
  readonly extraMiB: number;
}

interface Loaded {
  readonly wallSeconds: number;
  readonly cpuSeconds: number;
}

/** All trainers of one round together. */
interface Round {
  /** The slowest trainer. */
  readonly copySeconds: number;
  readonly blockedSeconds: number;
  readonly saveSeconds: number;
  readonly loadSeconds: number;
  /** Per GiB. `blocked`: of the trainers, in the call that blocks them. */
  readonly blockedCpu: number;
  /** The same from the end of that call to the commit. */
  readonly waitingCpu: number;
  readonly saveCpu: number;
  readonly loadCpu: number;
  readonly extraMiB: number;
  /** Largest resident memory of the agent so far. */
  readonly agentMiB: number;
  /** Median time of a call that asks the agent alone. */
  readonly controlMs: number;
}

type Rounds = Readonly<Partial<Record<Client, readonly Round[]>>>;

/** Prints tables and writes `agent.json` and `.md`. Resolves to false if a target was missed. */
export async function benchAgent(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      size: { type: 'string', default: '512MiB' },
      trainers: { type: 'string', default: '2' },
      peers: { type: 'string', default: CLIENTS.join() },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false },
      'install-peers': { type: 'boolean', default: false },
    },
  });
  if (values['install-peers']) installClients();
  if (!values['from-sources'] && !runStep(BUILD))
    throw new Error('the build failed; its own words are above');
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const trainers = Math.ceil(positive('--trainers', values.trainers));
  const sizeBytes = parseShape(`1x${values.size}`).fileBytes;
  return inNewDirectory(values.dir, async (directory) => {
    const target = await minioTarget({ directory: join(directory, 'minio'), tls: false });
    try {
      const setting = { target, directory, trainers, sizeBytes };
      const clients = chosen('--peers', values.peers, CLIENTS).filter(isInstalled);
      const started = await startTimes({ directory, env: clientEnv(target, directory) }, rounds);
      const found = await measure(setting, clients, rounds);
      const conditions = `${machineText()}; ${trainers} trainers of ${values.size} each, MinIO on the same machine; ${rounds} rounds, median [min–max]`;
      const verdicts = [...verdictsOf(found, sizeBytes), ...startVerdicts(started)];
      const markdown = `${[conditions, verdictTable(verdicts), tableOf(found)].join('\n\n')}\n`;
      publish(
        'agent',
        { markdown, json: { conditions, rounds: found, started, verdicts }, charts: {} },
        values.out,
      );
      return verdicts.every(isMet);
    } finally {
      await target.close();
    }
  });
}

interface Setting {
  readonly target: Target;
  readonly directory: string;
  readonly trainers: number;
  readonly sizeBytes: number;
}

async function measure(setting: Setting, clients: readonly Client[], rounds: number): Promise<Rounds> {
  const found: Partial<Record<Client, Round[]>> = {};
  const jobs: Job[] = [];
  try {
    for (const client of clients) jobs.push(await Job.start(client, setting));
    for (let round = 1; round <= rounds + WARM_UP_ROUNDS; round += 1) {
      for (const job of jobs) {
        const measured = await job.round(round);
        const { saveSeconds, blockedSeconds, loadSeconds } = measured;
        const text = `save ${saveSeconds.toFixed(2)} s, blocked ${blockedSeconds.toFixed(2)} s, load ${loadSeconds.toFixed(2)} s`;
        say(
          `${round <= WARM_UP_ROUNDS ? 'warm-up' : `round ${round - WARM_UP_ROUNDS}`}, ${job.client}: ${text}`,
        );
        if (round > WARM_UP_ROUNDS) found[job.client] = [...(found[job.client] ?? []), measured];
      }
    }
  } finally {
    await Promise.all(jobs.map((job) => job.end()));
  }
  return found;
}

/** The processes of one client: trainers, and for Holdfast the agent. */
class Job {
  readonly client: Client;
  readonly #trainers: readonly Trainer[];
  readonly #agent: StartedAgent | undefined;
  readonly #gib: number;

  private constructor(
    client: Client,
    trainers: readonly Trainer[],
    agent: StartedAgent | undefined,
    gib: number,
  ) {
    this.client = client;
    this.#trainers = trainers;
    this.#agent = agent;
    this.#gib = gib;
  }

  static async start(client: Client, setting: Setting): Promise<Job> {
    const { target, directory, trainers: count, sizeBytes } = setting;
    const env = clientEnv(target, directory);
    const { endpoint, region } = target.access;
    const socket = join(directory, 'run', 'agent.sock');
    const uri = `s3://${target.bucket}/agent?endpoint=${encodeURIComponent(endpoint)}&region=${region}`;
    const agent = client === 'holdfast' ? await startAgent(socket, env) : undefined;
    const shared = { client, sizeBytes, count, uri, socket, attempt: 'bench', endpoint, region };
    const trainers = await Promise.all(
      Array.from({ length: count }, (_, rank) =>
        Trainer.start({ ...shared, rank, bucket: target.bucket, prefix: `${client}/` }, env),
      ),
    );
    return new Job(client, trainers, agent, (count * sizeBytes) / 2 ** 30);
  }

  async round(version: number): Promise<Round> {
    const agentBefore = this.#agentCpuSeconds();
    const saved = await Promise.all(this.#trainers.map((trainer) => trainer.ask<Saved>(`save ${version}`)));
    const agentBetween = this.#agentCpuSeconds();
    const loaded = await Promise.all(this.#trainers.map((trainer) => trainer.ask<Loaded>(`load ${version}`)));
    const agentAfter = this.#agentCpuSeconds();
    const [first] = this.#trainers;
    const control = this.#agent && (await first?.ask<{ medianMs: number }>(`control ${version}`));
    return {
      copySeconds: largest(saved, 'copySeconds'),
      blockedSeconds: largest(saved, 'blockedSeconds'),
      saveSeconds: largest(saved, 'wallSeconds'),
      loadSeconds: largest(loaded, 'wallSeconds'),
      blockedCpu: sum(saved, 'blockedCpuSeconds') / this.#gib,
      waitingCpu: (sum(saved, 'cpuSeconds') - sum(saved, 'blockedCpuSeconds')) / this.#gib,
      saveCpu: (sum(saved, 'cpuSeconds') + agentBetween - agentBefore) / this.#gib,
      loadCpu: (sum(loaded, 'cpuSeconds') + agentAfter - agentBetween) / this.#gib,
      extraMiB: largest(saved, 'extraMiB'),
      agentMiB: this.#agent === undefined ? 0 : peakMiBOf(this.#agent.pid),
      controlMs: control?.medianMs ?? 0,
    };
  }

  async end(): Promise<void> {
    for (const trainer of this.#trainers) trainer.end();
    await this.#agent?.end();
  }

  #agentCpuSeconds(): number {
    return this.#agent === undefined ? 0 : cpuMsOf(this.#agent.pid) / 1000;
  }
}

class Trainer {
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  private constructor(process: ChildProcess) {
    this.#process = process;
    this.#lines = createInterface({ input: process.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  }

  static async start(
    job: { readonly client: Client; readonly [field: string]: unknown },
    env: Record<string, string>,
  ): Promise<Trainer> {
    const child = spawn(pythonOf(job.client), ['-B', TRAINER, JSON.stringify(job)], {
      env: { ...env, PYTHONPATH: CLIENT },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const trainer = new Trainer(child);
    await trainer.#answer();
    return trainer;
  }

  async ask<T>(line: string): Promise<T> {
    this.#process.stdin?.write(`${line}\n`);
    return JSON.parse(await this.#answer()) as T;
  }

  end(): void {
    this.#process.kill('SIGKILL');
  }

  async #answer(): Promise<string> {
    const { done, value } = await this.#lines.next();
    if (done) throw new Error('a trainer has ended; its own words are above');
    return value;
  }
}

function peakMiBOf(pid: number): number {
  const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kib) / 1024;
}

/** What an agent without transfer workers may use, beside its budget of bytes. */
const AGENT_MIB = 128;

function verdictsOf(found: Rounds, sizeBytes: number): Verdict[] {
  const own = found.holdfast ?? [];
  const of = (rounds: readonly Round[], field: keyof Round) => rounds.map((round) => round[field]);
  const verdicts: Verdict[] = [
    {
      what: 'a trainer is blocked by a save, time / a plain copy into warm memory',
      values: ratios(of(own, 'blockedSeconds'), of(own, 'copySeconds')),
      wanted: { atMost: 1.3 },
    },
    {
      what: 'CPU of the trainers in the save, s/GiB',
      values: of(own, 'blockedCpu'),
      wanted: { atMost: 0.25 },
    },
    {
      what: 'CPU of the trainers while the agent saves, s/GiB',
      values: of(own, 'waitingCpu'),
      wanted: { atMost: 0.05 },
    },
    {
      what: "a trainer's memory besides its state / its state",
      values: of(own, 'extraMiB').map((mib) => mib / (sizeBytes / 2 ** 20)),
      wanted: { atMost: 2 },
    },
    {
      what: "the agent's memory, MiB (two processors: no transfer workers)",
      values: of(own, 'agentMiB'),
      wanted: { atMost: SETTINGS.bufferBytes.default / 2 ** 20 + AGENT_MIB },
    },
    {
      what: 'a call that asks the agent alone, ms',
      values: of(own, 'controlMs'),
      wanted: { atMost: 0.5 },
    },
  ];
  for (const [client, rounds] of Object.entries(found)) {
    if (client === 'holdfast') continue;
    const against = (what: string, field: keyof Round) =>
      verdicts.push({
        what: `${what} / ${client}`,
        values: ratios(of(own, field), of(rounds, field)),
        wanted: { atMost: 1 },
      });
    against('save to commit, time', 'saveSeconds');
    against('save to commit, CPU of trainers and agent', 'saveCpu');
    against('load into memory, time', 'loadSeconds');
    against('load into memory, CPU', 'loadCpu');
  }
  return verdicts;
}

function startVerdicts({ importMs, connectMs, startMs }: Awaited<ReturnType<typeof startTimes>>): Verdict[] {
  return [
    { what: 'import of the client, ms', values: importMs, wanted: { atMost: 50 } },
    { what: 'the same, and what its first use loads, ms', values: connectMs },
    { what: 'start of the agent, ms', values: startMs, wanted: { atMost: 300 } },
  ];
}

function tableOf(found: Rounds): string {
  const head = [
    'client',
    'blocked s',
    'save s',
    'save CPU s/GiB',
    'load s',
    'load CPU s/GiB',
    'extra MiB per trainer',
  ];
  const fields = ['blockedSeconds', 'saveSeconds', 'saveCpu', 'loadSeconds', 'loadCpu', 'extraMiB'] as const;
  const rows = Object.entries(found).map(([client, rounds]) => [
    client,
    ...fields.map((field) => spread(rounds.map((round) => round[field]))),
  ]);
  return markdownTable(head, rows);
}

function largest<T>(values: readonly T[], field: keyof T): number {
  return Math.max(...values.map((value) => Number(value[field])));
}

function sum<T>(values: readonly T[], field: keyof T): number {
  return values.reduce((total, value) => total + Number(value[field]), 0);
}
