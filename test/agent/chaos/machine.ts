/** A machine with one agent at a time, whose trainers and rounds come one after the other. */

import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HOLDFAST } from '../../e2e/holdfast-process.ts';
import { hasErrorCode } from '../../servers/error-code.ts';
import { AgentClient } from '../agent-client.ts';
import { WatchedProcess } from './watched-process.ts';

export interface MachineKind {
  readonly isInMemory: boolean;
  readonly bytesPerSecondMax: number | null;
  /** Credentials for its agents. */
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** What an agent's log says, and what it prints. */
export type AgentLine = Readonly<Record<string, unknown>> & { readonly message?: string };

const MEMORY = '/dev/shm';

export class Machine {
  readonly directory = mkdtempSync(join(tmpdir(), 'holdfast-chaos-'));
  readonly stage: string;
  readonly socket = join(this.directory, 'agent.sock');
  /** Gets each line of each agent. */
  onLine: (line: AgentLine) => void = () => undefined;
  readonly #stageParent: string;
  readonly #config = join(this.directory, 'config.json');
  readonly #env: Readonly<Record<string, string>>;
  #agent: WatchedProcess | undefined;

  constructor({ isInMemory, bytesPerSecondMax, env = {} }: MachineKind) {
    this.#env = env;
    this.#stageParent = isInMemory ? mkdtempSync(join(MEMORY, 'holdfast-chaos-')) : this.directory;
    this.stage = join(this.#stageParent, 'stage');
    const limits = bytesPerSecondMax === null ? {} : { saveBytesPerSecondMax: bytesPerSecondMax };
    writeFileSync(this.#config, JSON.stringify(limits));
  }

  get agent(): WatchedProcess | undefined {
    return this.#agent;
  }

  /** Resolves when it is ready. Returns at once if one runs. */
  async startAgent(): Promise<void> {
    if (this.#agent?.isRunning) return;
    const places = ['--socket', this.socket, '--stage', this.stage, '--config', this.#config];
    const ready = Promise.withResolvers<void>();
    const agent = new WatchedProcess([...HOLDFAST, 'agent', ...places, '--deadline', '2s'], {
      env: this.#env,
      onLine: (line) => {
        const said = parsed(line);
        if (said.event === 'ready') ready.resolve();
        this.onLine(said);
      },
    });
    this.#agent = agent;
    // One that is killed before it is ready starts again with the next call.
    await Promise.race([ready.promise, agent.ended]);
  }

  /** A client that no earlier round has used. */
  async withClient<T>(use: (client: AgentClient) => Promise<T>): Promise<T> {
    const client = new AgentClient(this.socket);
    try {
      return await use(client);
    } finally {
      client.disconnect();
    }
  }

  /** What the staging directory holds besides the lock of the agent that runs. */
  staged(): string[] {
    try {
      const names = readdirSync(this.stage, { recursive: true, encoding: 'utf8' });
      return names.filter((name) => name !== '.lock');
    } catch (error) {
      if (!hasErrorCode(error, 'ENOENT')) throw error;
      return ['a directory that is being removed'];
    }
  }

  /** Names beside the socket and the directories that stay. */
  litter(): string[] {
    const stays = ['agent.sock', 'config.json', 'stage', 'runs', 'files'];
    return readdirSync(this.directory).filter((name) => !stays.includes(name));
  }

  async close(): Promise<void> {
    if (this.#agent?.isRunning) await this.#agent.kill();
    await rm(this.directory, { recursive: true, force: true });
    await rm(this.#stageParent, { recursive: true, force: true });
  }
}

function parsed(line: string): AgentLine {
  try {
    return JSON.parse(line) as AgentLine;
  } catch {
    return { level: 'text', message: line };
  }
}
