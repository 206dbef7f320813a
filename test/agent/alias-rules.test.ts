/** The retention rules of an alias are not for trainers to change. */

import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { newRun, TestAgent } from './agent-run.ts';

/** Versions that retention has left, newest first. */
async function live(agent: TestAgent, uri: string): Promise<string[]> {
  const { body } = await agent.call('versions', { query: { uri } });
  const versions = body.versions as { version: string; state: string }[];
  return versions.filter(({ state }) => state === 'live').map(({ version }) => version);
}

test('the rules of an alias are those of its run, whatever a trainer brings', async () => {
  await using agent = new TestAgent();
  const uri = newRun();
  await agent.start({ runs: { prod: { uri, retention: { keepLast: 2, graceMs: 0 } } } });
  const trainer = await agent.trainer('prod', { retention: { keepLast: 1 } });
  for (const version of [1, 2, 3, 4]) await trainer.save(version);
  await vi.waitFor(async () => expect(await live(agent, 'prod')).toEqual(['4', '3']));
});

test.each<[string, (directory: string) => string]>([
  ['its URI', (directory) => `file://${directory}/run`],
  ['its URI with a slash at the end', (directory) => `file://${directory}/run/`],
  ['a link to its directory', (directory) => `file://${directory}/link/run`],
])('the rules of an alias hold too if a trainer names the run by %s', async (_, uriIn) => {
  await using agent = new TestAgent();
  const directory = join(agent.directory, 'data');
  mkdirSync(directory);
  symlinkSync(directory, join(directory, 'link'));
  const uri = `file://${directory}/run`;
  await agent.start({ runs: { prod: { uri, retention: { keepLast: 3, graceMs: 0 } } } });
  await (await agent.trainer('prod')).save(1);
  const trainer = await agent.trainer(uriIn(directory), {
    attempt: 'b',
    retention: { keepLast: 1, graceMs: 0 },
  });
  for (const version of [2, 3, 4, 5]) await trainer.save(version);
  // Version 1 is the one that the attempt began with.
  const isKept = async () => expect(await live(agent, 'prod')).toEqual(['5', '4', '3', '1']);
  await vi.waitFor(isKept, 20_000);
});
