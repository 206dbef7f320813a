/** Descriptors that trainers name to the agent as memory of their own. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pythonProgram } from '../python/python-program.ts';
import { describeWithPython } from '../python/run-python.ts';
import { hex } from './agent-client.ts';
import { newRun, TestAgent } from './agent-run.ts';

const isRoot = process.getuid?.() === 0;
const TRAINER = fileURLToPath(new URL('./forged-memory.py', import.meta.url));
const OWN = 'memory of the trainer';
const SECRET = 'a secret of the agent';
/** In memory too, as secrets of a system often are. */
const SHARED_MEMORY = '/dev/shm';

describeWithPython('a descriptor of a trainer', () => {
  let agent: TestAgent;
  beforeAll(async () => {
    agent = await TestAgent.start();
  });
  afterAll(() => agent[Symbol.asyncDispose]());

  /** Saves it so often, and resolves to how each save ended: its bytes, or its code. */
  async function saved(kind: string, { saveCount = 1, place = tmpdir() } = {}): Promise<string[]> {
    const directory = mkdtempSync(join(place, 'holdfast-forged-'));
    const secret = join(directory, 'secret');
    writeFileSync(secret, SECRET, { mode: 0o600 });
    const [life, segment, run] = [hex(), hex().slice(0, 16), newRun()];
    const name = `holdfast-${life}-${segment}`;
    const child = spawn(await pythonProgram(), ['-B', TRAINER, kind, name, secret], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    try {
      const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
      const body = { uri: run, attempt: 'a', life, pid: child.pid };
      const { body: joined } = await agent.call('join', { body });
      const source = { pid: child.pid, fd: Number(line), segment, offset: 0, length: OWN.length };
      const outcomes: string[] = [];
      for (let version = 1; version <= saveCount; version += 1)
        outcomes.push(await outcomeOf(run, String(joined.writerId), { version, source }));
      return outcomes;
    } finally {
      child.stdin.end();
      child.kill('SIGKILL');
      rmSync(directory, { recursive: true, force: true });
    }
  }

  async function outcomeOf(
    run: string,
    writerId: string,
    { version, source }: { version: number; source: object },
  ): Promise<string> {
    const path = { writerId };
    const order = { saveId: hex(), version, files: [{ name: 'f', source }] };
    const { body } = await agent.call('save', { path, body: order });
    if (body.code !== undefined) return String(body.code);
    const query = { wait: 'committed', timeoutMs: '20000' };
    const ended = await agent.call('saveState', { path: { writerId, saveId: order.saveId }, query });
    if (ended.body.state !== 'committed') return String(ended.body.state);
    const file = new URLSearchParams({ uri: run, version: String(version), name: 'f' });
    return String((await agent.raw({ method: 'GET', path: `/v1/files?${file}` })).bytes);
  }

  test.each([
    ['memory', OWN],
    ['memory that it only reads', OWN],
    ['memory that it only names', 'Denied'],
    ['memory that it only writes', 'Denied'],
  ])('naming %s: %s', async (kind, outcome) => {
    expect(await saved(kind)).toEqual([outcome]);
  });

  test.runIf(isRoot).each([
    ['a foreign file', tmpdir()],
    ['a foreign file', SHARED_MEMORY],
    ['a foreign file that was removed', tmpdir()],
    ['a foreign file that was removed', SHARED_MEMORY],
  ])('naming %s in %s as memory: Denied', async (kind, place) => {
    expect(await saved(kind, { place })).toEqual(['Denied']);
  });

  test.runIf(isRoot)('naming memory and a foreign file by turns: never the bytes of the file', async () => {
    const kind = 'memory and a foreign file by turns';
    const outcomes = await saved(kind, { saveCount: 300, place: SHARED_MEMORY });
    expect(outcomes.filter((outcome) => outcome !== OWN && outcome !== 'Denied')).toEqual([]);
  });
});
