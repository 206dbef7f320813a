/**
 * Agents and trainers as processes that are killed or stopped. Each line of the table "What
 * survives what" of docs/agent.md is a test here or in python/tests/test_agent_ends.py.
 */

import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, expect, test, vi } from 'vitest';
import { COMPILE_CACHE, HOLDFAST } from '../e2e/holdfast-process.ts';
import { Program } from '../e2e/program.ts';
import { AgentClient } from './agent-client.ts';
import { bytesOf, type TrainerOrders } from './trainer-process.ts';

const TIMEOUT_MS = 60_000;
const SIZE_BYTES = 1_000_000;
/** The second file of this size has to wait for many minutes. */
const SLOW = { saveBytesPerSecondMax: 1000 };

const MANUAL = readFileSync(new URL('../../docs/agent.md', import.meta.url), 'utf8');
const PYTHON_TESTS = readFileSync(new URL('../../python/tests/test_agent_ends.py', import.meta.url), 'utf8');

class Machine {
  readonly directory = mkdtempSync(join(tmpdir(), 'holdfast-endings-'));
  readonly uri = pathToFileURL(join(this.directory, 'run')).href;
  readonly stage = join(this.directory, 'stage');
  readonly client = new AgentClient(join(this.directory, 'agent.sock'));
  readonly #programs: Program[] = [];

  async startAgent(config: Record<string, unknown> = {}, ...more: readonly string[]): Promise<Program> {
    const path = join(this.directory, 'config.json');
    writeFileSync(path, JSON.stringify(config));
    const places = ['--socket', this.client.socket, '--stage', this.stage, '--config', path];
    const agent = this.#start([...HOLDFAST, 'agent', ...places, ...more]);
    await agent.says(/"event":"ready"/);
    return agent;
  }

  /**
   * A trainer that is the first of `count` writers. It has committed version 1, has staged version
   * 2, and has not sealed version 3. Writers that wait for another one commit nothing.
   */
  async startTrainer(count = 1): Promise<Program> {
    const second = count === 1 ? undefined : await this.client.trainer(this.uri, { index: 1, count });
    const orders: TrainerOrders = {
      ...{ socket: this.client.socket, uri: this.uri, count },
      saves: [
        { version: 1, isSealed: true, files: { a: 10 }, until: 'committed' },
        { version: 2, isSealed: true, files: { a: SIZE_BYTES, b: SIZE_BYTES }, until: 'staged' },
        { version: 3, isSealed: false, files: { a: 10 }, until: 'open' },
      ],
    };
    const trainer = this.#start('test/agent/trainer-process.ts', JSON.stringify(orders));
    await second?.save(1, { files: [second.staged('of-1')] });
    await trainer.says(/done/);
    return trainer;
  }

  /** Another writer does its part of versions 2 and 3. Resolves to how these saves ended. */
  async saveRest(): Promise<string[]> {
    const second = await this.client.trainer(this.uri, { index: 1, count: 2 });
    const states: string[] = [];
    for (const [version, timeoutMs] of [
      [2, TIMEOUT_MS],
      [3, 2000],
    ] as const) {
      const { body } = await second.begin(version, { files: [second.staged('of-1')], timeoutMs });
      states.push((await second.ended(body.saveId as string)).state);
    }
    return states;
  }

  /** The committed versions. Checks all bytes of the first writer. */
  async versions(): Promise<string[]> {
    const query = { uri: this.uri };
    const { body } = await this.client.call('versions', { query });
    const versions = (body.versions as { version: string }[]).map(({ version }) => version);
    for (const version of versions) {
      for (const [name, size] of version === '1' ? [['a', 10] as const] : LARGE) {
        const wanted = new URLSearchParams({ ...query, version, name });
        const { bytes } = await this.client.raw({ method: 'GET', path: `/v1/files?${wanted}` });
        expect(bytes.equals(bytesOf(Number(version), size)), `${name} of ${version}`).toBe(true);
      }
    }
    return versions;
  }

  /** Its records are of another start of the machine from now on. */
  restart(): void {
    for (const writer of readdirSync(this.stage).filter((name) => name !== '.lock')) {
      const path = join(this.stage, writer, 'writer.json');
      const record = JSON.parse(readFileSync(path, 'utf8'));
      writeFileSync(path, JSON.stringify({ ...record, boot: { ...record.boot, id: 'before' } }));
    }
  }

  async stop(): Promise<void> {
    for (const program of this.#programs) program.kill('SIGKILL');
    await Promise.all(this.#programs.map(({ ended }) => ended));
    this.client.disconnect();
    await rm(this.directory, { recursive: true, force: true });
  }

  #start(what: string | readonly string[], ...args: readonly string[]): Program {
    const program = new Program(what, { args, env: { NODE_COMPILE_CACHE: COMPILE_CACHE } });
    this.#programs.push(program);
    return program;
  }
}

const LARGE = [
  ['a', SIZE_BYTES],
  ['b', SIZE_BYTES],
] as const;

const machines: Machine[] = [];
afterEach(async () => {
  for (const machine of machines.splice(0)) await machine.stop();
});

function newMachine(): Machine {
  const machine = new Machine();
  machines.push(machine);
  return machine;
}

async function kill(...programs: readonly Program[]): Promise<void> {
  for (const program of programs) program.kill('SIGKILL');
  await Promise.all(programs.map(({ ended }) => ended));
}

const tests = new Map<string, (machine: Machine) => Promise<void>>([
  [
    'SIGKILL of the trainer',
    async (machine) => {
      await machine.startAgent();
      await kill(await machine.startTrainer(2));
      expect(await machine.saveRest()).toEqual(['committed', 'incomplete']);
      expect(await machine.versions()).toEqual(['2', '1']);
    },
  ],
  [
    'SIGKILL of the agent',
    async (machine) => {
      const agent = await machine.startAgent(SLOW);
      await machine.startTrainer();
      await sending(machine);
      await kill(agent);
      await machine.startAgent();
      await vi.waitFor(async () => expect(await machine.versions()).toEqual(['2', '1']), TIMEOUT_MS);
    },
  ],
  [
    'SIGKILL of both',
    async (machine) => {
      const agent = await machine.startAgent();
      await kill(await machine.startTrainer(2), agent);
      await machine.startAgent();
      expect(await machine.saveRest()).toEqual(['committed', 'incomplete']);
      expect(await machine.versions()).toEqual(['2', '1']);
    },
  ],
  [
    'SIGTERM of the agent, and saves end before the deadline',
    async (machine) => {
      const agent = await machine.startAgent(SLOW);
      await machine.startTrainer();
      await sending(machine);
      agent.kill('SIGTERM');
      expect(endOf(await agent.ended)).toEqual({
        ...{ event: 'ended', newest: [{ uri: machine.uri, version: '2' }] },
        ...{ unfinishedCount: 0, resumableCount: 0 },
      });
      await machine.startAgent();
      expect(await machine.versions()).toEqual(['2', '1']);
    },
  ],
  [
    'SIGTERM of the agent, and the deadline passes',
    async (machine) => {
      const agent = await machine.startAgent({}, '--deadline', '1s');
      await machine.startTrainer(2);
      agent.kill('SIGTERM');
      expect(endOf(await agent.ended)).toEqual({
        ...{ event: 'ended', newest: [{ uri: machine.uri, version: '1' }] },
        ...{ unfinishedCount: 1, resumableCount: 1 },
      });
      await machine.startAgent();
      expect(await machine.saveRest()).toEqual(['committed', 'incomplete']);
      expect(await machine.versions()).toEqual(['2', '1']);
    },
  ],
  [
    'restart of the machine, with a staging directory on a disk',
    async (machine) => {
      const agent = await machine.startAgent(SLOW);
      await machine.startTrainer();
      await sending(machine);
      await kill(agent);
      machine.restart();
      await machine.startAgent();
      expect(await machine.versions()).toEqual(['1']);
      expect(readdirSync(machine.stage)).toEqual(['.lock']);
    },
  ],
  [
    'loss of the machine, or of the staging directory',
    async (machine) => {
      const agent = await machine.startAgent(SLOW);
      await kill(await machine.startTrainer(), agent);
      await rm(machine.stage, { recursive: true });
      await machine.startAgent();
      expect(await machine.versions()).toEqual(['1']);
      expect(readdirSync(machine.stage)).toEqual(['.lock']);
    },
  ],
]);

test.each([...tests])('%s', (_, prove) => prove(newMachine()), TIMEOUT_MS * 2);

/** Waits until the first file of version 2 was sent. The limit holds the second one back. */
async function sending(machine: Machine): Promise<void> {
  await vi.waitFor(async () => {
    const { body } = await machine.client.call('status');
    const [{ saves }] = body.writers as [{ saves: Record<string, unknown>[] }];
    expect(saves).toMatchObject([{ state: 'open' }, { state: 'uploading', doneBytes: SIZE_BYTES }, {}]);
  }, TIMEOUT_MS);
}

function endOf({ exitCode, stdout }: Awaited<Program['ended']>): unknown {
  expect(exitCode).toBe(0);
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) as string);
}

test('each line of the table is a test', () => {
  const [, table = ''] = /^## What survives what\n[^|]*((?:\|.*\n)+)/m.exec(MANUAL) ?? [];
  const names = [...table.matchAll(/^\| ([^|-]+?) \|/gm)].map(([, name = '']) => name).slice(1);
  const isOfPython = (name: string) => PYTHON_TESTS.includes(`"""${name}."""`);
  expect(names.filter((name) => !isOfPython(name))).toEqual([...tests.keys()]);
  expect(names.filter(isOfPython)).toHaveLength(1);
});
