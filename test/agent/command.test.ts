/** `holdfast agent` and `holdfast agent status` as processes, and the recipes of docs/agent.md. */

import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { createServer as createNetServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { COMPILE_CACHE, HOLDFAST, holdfast } from '../e2e/holdfast-process.ts';
import { Program } from '../e2e/program.ts';
import { AgentClient } from './agent-client.ts';

const MANUAL = readFileSync(new URL('../../docs/agent.md', import.meta.url), 'utf8');

let directory: string;
const programs: Program[] = [];

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-command-'));
});
afterEach(async () => {
  for (const program of programs) program.kill('SIGKILL');
  await Promise.all(programs.splice(0).map(({ ended }) => ended));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

function start(words: readonly string[], env: Record<string, string> = {}): Program {
  const program = new Program(words, { env: { NODE_COMPILE_CACHE: COMPILE_CACHE, ...env } });
  programs.push(program);
  return program;
}

async function startAgent(
  name: string,
  ...more: readonly string[]
): Promise<{ socket: string; agent: Program }> {
  const socket = join(directory, name, 'agent.sock');
  const agent = start([...HOLDFAST, 'agent', ...more], { HOLDFAST_AGENT: socket });
  await agent.says(/"event":"ready"/);
  return { socket, agent };
}

const status = (env: Record<string, string>, ...more: readonly string[]) =>
  holdfast(['agent', 'status', ...more], { env });

describe('agent status', () => {
  test('finds the agent as the Python client does, and tells what it does', async () => {
    const { socket, agent } = await startAgent('found');
    const uri = pathToFileURL(join(directory, 'run-found')).href;
    const client = new AgentClient(socket);
    await (await client.trainer(uri)).save(4);
    client.disconnect();
    const told = await status({ HOLDFAST_AGENT: socket });
    expect(told).toMatchObject({ code: 0, stderr: '' });
    expect(told.stdout).toMatch(new RegExp(`^agent \\S+ {3}process ${agent.pid} {3}up .*\n`));
    expect(told.stdout).toContain(`\n${uri}   0 of 1   `);
    expect(told.stdout).toContain(`\ncommitted   ${uri}   version 4\n`);
    const json = JSON.parse((await status({}, '--socket', socket, '--json')).stdout);
    expect(json).toMatchObject({ pid: agent.pid, newest: [{ uri, version: '4' }] });
  });

  test('an agent that ends by itself says what is durable as well', async () => {
    const { socket, agent } = await startAgent('preempted');
    const uri = pathToFileURL(join(directory, 'run-preempted')).href;
    const client = new AgentClient(socket);
    await (await client.trainer(uri)).save(4);
    await client.call('preempt', { body: { deadlineMs: 0 } });
    const { exitCode, stdout } = await agent.ended;
    client.disconnect();
    expect([exitCode, JSON.parse(stdout.trimEnd().split('\n').at(-1) as string)]).toEqual([
      0,
      { event: 'ended', newest: [{ uri, version: '4' }], unfinishedCount: 0, resumableCount: 0 },
    ]);
  });

  test('a second agent at one socket', async () => {
    const { socket } = await startAgent('one');
    const { exitCode, stderr } = await start([...HOLDFAST, 'agent', '--socket', socket]).ended;
    expect(exitCode).toBe(7);
    expect(stderr).toContain('use that agent, or give this one a socket and a stage of its own');
    expect(stderr).not.toContain('choose another name');
  });

  test('its log is JSON to the end', async () => {
    const { agent } = await startAgent('log');
    agent.kill('SIGTERM');
    const lines = (await agent.ended).stderr.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { level: 'info', message: expect.stringMatching(/^stops: takes no new saves/), deadlineMs: 25_000 },
    ]);
  });

  test('a token', async () => {
    const [config, token, other] = ['config.json', 'token', 'other'].map((name) => join(directory, name)) as [
      string,
      string,
      string,
    ];
    writeFileSync(token, `${'t'.repeat(20)}\n`);
    writeFileSync(other, 'o'.repeat(20));
    writeFileSync(config, JSON.stringify({ tokenFile: token }));
    const { socket } = await startAgent('shared', '--config', config);
    const env = { HOLDFAST_AGENT: socket };
    expect((await status({ ...env, HOLDFAST_AGENT_TOKEN_FILE: token })).code).toBe(0);
    for (const more of [{}, { HOLDFAST_AGENT_TOKEN_FILE: other }]) {
      const refused = await status({ ...env, ...more });
      expect(refused).toMatchObject({ code: 8, stdout: '' });
      expect(refused.stderr).toContain(`the agent at ${socket} refuses: `);
      expect(refused.stderr).toContain('set HOLDFAST_AGENT_TOKEN_FILE to the file with its token');
    }
    const missing = await status({ ...env, HOLDFAST_AGENT_TOKEN_FILE: join(directory, 'none') });
    expect(missing).toMatchObject({ code: 6, stdout: '' });
  });

  test('no agent, an agent that was killed, and another program', async () => {
    const nowhere = join(directory, 'nowhere.sock');
    const none = await status({}, '--socket', nowhere);
    expect(none).toMatchObject({ code: 75, stdout: '' });
    expect(none.stderr).toContain(`no agent answers at ${nowhere}: there is no socket`);
    expect(none.stderr).toContain('`holdfast agent` starts one');
    const { socket, agent } = await startAgent('killed');
    agent.kill('SIGKILL');
    await agent.ended;
    expect((await status({}, '--socket', socket)).stderr).toContain(
      `no agent answers at ${socket}: it has ended`,
    );
    for (const [index, [code, answer]] of (
      [
        [200, 'hello'],
        [404, '{"error":"no"}'],
        [200, '{}'],
      ] as const
    ).entries()) {
      const path = join(directory, `other-${index}.sock`);
      const server = await serverAt(path, code, answer);
      const refused = await status({}, '--socket', path);
      server.close();
      expect(refused).toMatchObject({ code: 2, stdout: '' });
      expect(refused.stderr).toContain(`${path} is not the socket of an agent`);
    }
  });
});

describe.runIf(process.getuid?.() === 0)('a socket that is not trusted gets no token', () => {
  const USER = 12_345;
  test.each<[string, string, (place: string, socket: string) => void]>([
    [
      'in a directory of another user',
      `belongs to user ${USER}, who could`,
      (place) => chownSync(place, USER, USER),
    ],
    ['that another user has made', `belongs to user ${USER}`, (_, socket) => chownSync(socket, USER, USER)],
    ['in a directory that all may write', 'has mode 0777, so that', (place) => chmodSync(place, 0o777)],
    [
      'that all may use',
      'has mode 0666, so that any user may use it',
      (place, socket) => {
        chmodSync(place, 0o755);
        chmodSync(socket, 0o666);
      },
    ],
  ])('%s', async (name, says, change) => {
    const place = join(directory, name.replaceAll(' ', '-'));
    mkdirSync(place, { mode: 0o700 });
    const socket = join(place, 'a.sock');
    const token = join(directory, 'a-token');
    writeFileSync(token, 't'.repeat(20));
    let count = 0;
    const server = createNetServer(() => (count += 1));
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    change(place, socket);
    const refused = await status({ HOLDFAST_AGENT_TOKEN_FILE: token }, '--socket', socket);
    server.close();
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain(says);
    expect(count).toBe(0);
  });

  test('a socket of the user that HOLDFAST_AGENT_UID names is asked', async () => {
    const place = join(directory, 'named-user');
    mkdirSync(place, { mode: 0o700 });
    const socket = join(place, 'a.sock');
    const server = await serverAt(socket, 200, '{}');
    for (const path of [place, socket]) chownSync(path, USER, USER);
    const asked = await status({ HOLDFAST_AGENT_UID: `${USER}` }, '--socket', socket);
    const wrong = await status({ HOLDFAST_AGENT_UID: 'me' }, '--socket', socket);
    server.close();
    expect(asked.stderr).toContain('does not answer as one');
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('HOLDFAST_AGENT_UID: expected')]);
  });
});

function serverAt(path: string, status: number, answer: string): Promise<Server> {
  const server = createServer((_, response) => response.writeHead(status).end(answer));
  return new Promise((resolve) => server.listen(path, () => resolve(server)));
}

/** The commands of the document use directories of this test, which are as private. */
function moved(text: string, name: string): string {
  const own = join(directory, name);
  mkdirSync(own, { recursive: true, mode: 0o700 });
  return text
    .replaceAll(/\/(?:tmp|dev\/shm)\//g, `${own}/`)
    .replaceAll('/run/holdfast/', `${own}/run/`)
    .replaceAll(/(?<=["' ])\/holdfast\//g, `${own}/`);
}

/** The program in the section. */
function sectionOf(title: string): string {
  const section = MANUAL.split(/^## /m).find((each) => each.startsWith(`${title}\n`)) ?? '';
  const [, text = ''] = /^```\w+\n([\s\S]*?)^```$/m.exec(section) ?? [];
  expect(text).not.toBe('');
  return text;
}

function secondsAfter(text: string, pattern: RegExp): number {
  return Number(pattern.exec(text)?.[1]);
}

async function proveAgent(words: readonly string[], probe: readonly string[]): Promise<void> {
  const agent = start([...HOLDFAST, ...words]);
  await agent.says(/"event":"ready"/);
  expect((await holdfast(probe)).code).toBe(0);
  agent.kill('SIGTERM');
  expect(await agent.ended).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('"ended"') });
}

describe('docs/agent.md', () => {
  test('systemd', async () => {
    const unit = sectionOf('systemd');
    const deadline = secondsAfter(unit, /--deadline (\d+)s/);
    expect(secondsAfter(unit, /^TimeoutStopSec=(\d+)$/m)).toBeGreaterThan(deadline + 8);
    const [, line = ''] = /^ExecStart=\S+ (.*)$/m.exec(moved(unit, 'systemd')) ?? [];
    const [, socket = ''] = /HOLDFAST_AGENT=(\S+)`/.exec(moved(MANUAL, 'systemd')) ?? [];
    await proveAgent(line.split(' '), ['agent', 'status', '--socket', socket]);
  });

  test('Kubernetes', async () => {
    const pod = sectionOf('Kubernetes');
    const deadline = secondsAfter(pod, /"--deadline", "(\d+)s"/);
    expect(secondsAfter(pod, /terminationGracePeriodSeconds: (\d+)/)).toBeGreaterThan(2 * deadline);
    const text = moved(pod, 'kubernetes');
    const listOf = (key: string) =>
      JSON.parse(new RegExp(`^ +${key}: (\\[.*\\])$`, 'm').exec(text)?.[1] ?? '') as string[];
    const [program, ...probe] = listOf('command');
    expect(program).toBe('holdfast');
    expect(probe.at(-1)).toBe(
      /value: (\S+agent\.sock)/.exec(pod)?.[1]?.replace('/holdfast', join(directory, 'kubernetes')),
    );
    await proveAgent(listOf('args'), probe);
  });

  test('Slurm: the trainers end first, and save once more; then the agents end', async () => {
    const script = moved(sectionOf('Slurm'), 'slurm');
    expect(secondsAfter(script, /USR1@(\d+)/)).toBeGreaterThan(
      120 + secondsAfter(script, /--deadline (\d+)s/),
    );
    const bin = join(directory, 'slurm', 'bin');
    mkdirSync(bin);
    const log = join(directory, 'slurm', 'log');
    const programsOf = {
      srun: 'while case $1 in --*) ;; *) false ;; esac; do shift; done; exec "$@"',
      holdfast: `exec ${HOLDFAST.map((word) => `'${word}'`).join(' ')} "$@"`,
      // A trainer that waits for its agent, and has something to do after SIGTERM.
      python: `trap 'sleep 0.2; holdfast agent status >/dev/null && echo "$1 $HOLDFAST_ATTEMPT" >>"${log}"; exit 7' TERM
until holdfast agent status >/dev/null 2>&1; do sleep 0.1; done
echo started; while :; do sleep 0.05; done`,
    };
    for (const [name, text] of Object.entries(programsOf)) {
      writeFileSync(join(bin, name), `#!/bin/bash\n${text}\n`);
      chmodSync(join(bin, name), 0o755);
    }
    const file = join(directory, 'slurm', 'job.sh');
    writeFileSync(file, script);
    const env = { PATH: `${bin}:${process.env['PATH']}`, SLURM_JOB_ID: '17', SLURM_NNODES: '1' };
    const job = start(['bash', file], env);
    await job.says(/started/);
    job.kill('SIGUSR1');
    const { exitCode, stdout } = await job.ended;
    expect(exitCode).toBe(7);
    expect(readFileSync(log, 'utf8')).toBe('train.py slurm-17-0\n');
    await vi.waitFor(() => expect(stdout).toContain('"event":"ended"'));
  });
});
