/** Trainers of another user than the agent's, as root can start them. */

import { chmodSync, chownSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { describeWithPython, runPython } from '../python/run-python.ts';
import { newRun, TestAgent } from './agent-run.ts';

const isRoot = process.getuid?.() === 0;
const USER = 12_345;
const GROUP = 12_346;
const TRAINER = new URL('./other-user.py', import.meta.url);

/** An agent whose socket, token and root belong to the group, and its stage to its user alone. */
async function sharedAgent(config: Record<string, unknown>): Promise<TestAgent> {
  const agent = new TestAgent();
  const place = join(agent.directory, 'run');
  const root = join(agent.directory, 'root');
  chmodSync(agent.directory, 0o711);
  for (const directory of [place, root]) {
    mkdirSync(directory);
    chownSync(directory, 0, GROUP);
    // New files get the group of the directory.
    chmodSync(directory, 0o2750);
  }
  const token = join(place, 'token');
  writeFileSync(token, 'a-token-of-sixteen-or-more');
  chmodSync(token, 0o640);
  for (const [name, owner] of [
    ['own', USER],
    ['foreign', 54_321],
  ] as const) {
    writeFileSync(join(root, name), name);
    chownSync(join(root, name), owner, GROUP);
  }
  await agent.start({ tokenFile: token, runs: { job: { uri: newRun() } }, roots: [root], ...config });
  vi.stubEnv('HOLDFAST_AGENT_TOKEN_FILE', token);
  vi.stubEnv('OWN', join(root, 'own'));
  vi.stubEnv('FOREIGN', join(root, 'foreign'));
  vi.stubEnv('TIMEOUT', '20');
  vi.stubEnv('PYTHONPATH', 'python');
  return agent;
}

afterEach(() => {
  vi.unstubAllEnvs();
});

async function stepsOf(agent: TestAgent, user: number, group: number): Promise<string[]> {
  const printed = await runPython(TRAINER, [String(user), String(group), agent.socket, 'job']);
  return printed.trimEnd().split('\n');
}

describeWithPython('trainers of another user', () => {
  test.runIf(isRoot)('with the token and in the group: they save their bytes and no others', async () => {
    await using agent = await sharedAgent({ owners: [USER] });
    expect(statSync(agent.socket)).toMatchObject({ uid: 0, gid: GROUP });
    expect(statSync(agent.socket).mode & 0o777).toBe(0o660);
    expect(await stepsOf(agent, USER, GROUP)).toEqual([
      // They cannot enter the staging directory.
      'saves: bytes from a memfd',
      'a file of its own: committed',
      'a foreign file: Denied',
      'restores: Denied',
      'joins: left',
    ]);
  });

  test.runIf(isRoot)('whose user the configuration does not name: nothing of theirs is opened', async () => {
    await using agent = await sharedAgent({});
    expect(await stepsOf(agent, USER, GROUP)).toEqual([
      'saves: Denied',
      'a file of its own: Denied',
      'a foreign file: Denied',
      'restores: Denied',
      'joins: left',
    ]);
  });

  test.runIf(isRoot)('without the token, and outside the group', async () => {
    await using agent = await sharedAgent({ owners: [USER] });
    vi.stubEnv('HOLDFAST_AGENT_TOKEN_FILE', '');
    expect(await stepsOf(agent, USER, GROUP)).toEqual(['joins: Denied']);
    vi.stubEnv('TIMEOUT', '0.2');
    expect(await stepsOf(agent, USER, USER)).toEqual(['joins: Unavailable']);
  });
});
