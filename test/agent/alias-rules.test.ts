/** The retention rules of an alias are not for trainers to change. */

import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { hex } from './agent-client.ts';
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

describe('an alias that names another run after a restart', () => {
  test('commits nothing of the former run there, and refuses its trainer', async () => {
    await using agent = new TestAgent();
    const data = (name: string) => `file://${join(agent.directory, name)}`;
    await agent.start({ runs: { prod: { uri: data('one') } } });
    const trainer = await agent.trainer('prod');
    expect((await trainer.save(1)).state).toBe('committed');
    await agent.stop();
    const seal = join(
      trainer.stage,
      readdirSync(trainer.stage).find((name) => name.startsWith('seal-')) ?? '',
    );
    const { committed: _, ...record } = JSON.parse(readFileSync(seal, 'utf8'));
    const files = [trainer.staged('model.bin', 'of one')];
    const save = { ...record.save, version: '50', files };
    writeFileSync(seal, JSON.stringify({ ...record, save, isDelivered: false }));
    await agent.start({ runs: { prod: { uri: data('two') } } });
    const other = await agent.trainer(data('two'), { attempt: 'b' });
    expect((await other.save(10)).state).toBe('committed');
    const { join: joined } = JSON.parse(readFileSync(join(trainer.stage, 'writer.json'), 'utf8'));
    expect(await agent.call('join', { body: joined })).toMatchObject({
      status: 409,
      body: { code: 'Conflict' },
    });
    const { body: found } = await agent.call('versions', { query: { uri: data('two') } });
    expect((found.versions as { version: string }[]).map(({ version }) => version)).toEqual(['10']);
    await agent.stop();
    await agent.start({ runs: { prod: { uri: data('one') } } });
    await vi.waitFor(async () => expect(await live(agent, 'prod')).toEqual(['50', '1']), 20_000);
  });

  test('a URI that is not accepted is in no line of the log', async () => {
    await using agent = await TestAgent.start();
    const secrets = ['az://acct/c/p?sv=2024&sig=TOPSECRETSIG', 's3://AKIAX:TOPSECRETKEY@bucket/run'];
    for (const uri of [...secrets, 'what://TOPSECRET', 's3://b/r?secretAccessKey=TOPSECRET']) {
      const body = { uri, attempt: 'a', life: hex(), pid: process.pid };
      const refused = await agent.call('join', { body });
      expect(refused.body.code).toBe('InvalidConfig');
      expect(JSON.stringify([refused, agent.log])).not.toContain('TOPSECRET');
    }
  });
});
