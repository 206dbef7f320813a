/** The election on a real etcd. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EtcdElection } from '@holdfast/training';
import { afterEach, expect, test, vi } from 'vitest';
import { describeOnEtcd, type EtcdServer, startEtcd } from '../servers/etcd-server.ts';
import { freeze } from '../servers/freeze.ts';
import { freePort } from '../servers/start-server.ts';

const JUST_UNDER_A_SECOND_MS = 999;
const MINUTE_MS = 60_000;
const LONG_ENOUGH = { timeout: 10_000, interval: 20 };

let keyCount = 0;
function newKey(): string {
  keyCount += 1;
  return `test/election/${keyCount}`;
}

async function ask(endpoint: string, path: string, body: object = {}): Promise<Record<string, unknown>> {
  const answer = await fetch(`${endpoint}${path}`, { method: 'POST', body: JSON.stringify(body) });
  expect(answer.status).toBe(200);
  return (await answer.json()) as Record<string, unknown>;
}

async function leasesOf(endpoint: string, key: string): Promise<readonly string[]> {
  const { kvs = [] } = await ask(endpoint, '/v3/kv/range', { key: Buffer.from(key).toString('base64') });
  return (kvs as { lease: string }[]).map(({ lease }) => lease);
}

async function leaseCount(endpoint: string): Promise<number> {
  const { leases = [] } = await ask(endpoint, '/v3/lease/leases');
  return (leases as unknown[]).length;
}

const started: EtcdServer[] = [];
async function ownEtcd(...options: Parameters<typeof startEtcd>): Promise<EtcdServer> {
  const server = await startEtcd(...options);
  started.push(server);
  return server;
}
afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.stop()));
});

describeOnEtcd('EtcdElection', (server) => {
  function electionOn(key: string, endpoints: readonly string[] = [server().endpoint]): EtcdElection {
    return new EtcdElection({ endpoints, key });
  }

  test('A14: one of 32 trainers that ask at once is elected, and the losers leave nothing behind', async () => {
    const key = newKey();
    const before = await leaseCount(server().endpoint);
    const ids = Array.from({ length: 32 }, (_, index) => `trainer-${index}`);
    const ask = (id: string) => electionOn(key).requestSave(id, MINUTE_MS);
    const answers = await Promise.all(ids.map(ask));
    const elected = ids.filter((_, index) => answers[index]);
    expect(elected).toHaveLength(1);
    expect(await Promise.all(ids.map(ask))).toEqual(answers);
    // The leases of the two grants. The first one expires by itself.
    expect(await leaseCount(server().endpoint)).toBe(before + 2);
  });

  test('A14: an elected trainer may ask again, from another process too; elections under other keys are separate', async () => {
    const key = newKey();
    expect(await electionOn(key).requestSave('嵌入', MINUTE_MS)).toBe(true);
    expect(await electionOn(key).requestSave('嵌入', MINUTE_MS)).toBe(true);
    expect(await electionOn(key).requestSave('other', MINUTE_MS)).toBe(false);
    expect(await electionOn(`${key}/`).requestSave('other', MINUTE_MS)).toBe(true);
  });

  test.concurrent('A14: the elected is gone: another one is elected after blockMs, rounded up to seconds, and not before', async () => {
    const election = electionOn(newKey());
    const beganMs = performance.now();
    expect(await election.requestSave('a', JUST_UNDER_A_SECOND_MS)).toBe(true);
    await vi.waitFor(
      async () => expect(await election.requestSave('b', JUST_UNDER_A_SECOND_MS)).toBe(true),
      LONG_ENOUGH,
    );
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(1000);
    expect(await election.requestSave('a', JUST_UNDER_A_SECOND_MS)).toBe(false);
  });

  // Tests that have to wait run side by side.
  test.concurrent('A14: what ends is the grant that is over, not the one after it', async () => {
    const key = newKey();
    const { endpoint } = server();
    expect(await electionOn(key).requestSave('a', JUST_UNDER_A_SECOND_MS)).toBe(true);
    const [first = ''] = await leasesOf(endpoint, key);
    expect(await electionOn(key).requestSave('a', MINUTE_MS)).toBe(true);
    expect(await leasesOf(endpoint, key)).not.toEqual([first]);
    const secondsLeft = async () => (await ask(endpoint, '/v3/lease/timetolive', { ID: first }))['TTL'];
    expect(await secondsLeft()).not.toBe('-1');
    await vi.waitFor(async () => expect(await secondsLeft()).toBe('-1'), LONG_ENOUGH);
    expect(await electionOn(key).requestSave('b', MINUTE_MS)).toBe(false);
  });

  test('an endpoint without a server, and one that is frozen, are skipped', async () => {
    const frozen = await ownEtcd();
    await freeze(frozen.pid);
    const endpoints = [`http://127.0.0.1:${await freePort()}`, frozen.endpoint, server().endpoint];
    const election = new EtcdElection({ endpoints, key: newKey(), timeoutMs: 1500 });
    expect(await election.requestSave('a', MINUTE_MS)).toBe(true);
  });

  test('an aborted call is Aborted', async () => {
    const signal = AbortSignal.abort();
    await expect(electionOn(newKey()).requestSave('a', MINUTE_MS, { signal })).rejects.toMatchObject({
      code: 'Aborted',
    });
  });

  test('frozen, it elects no trainer: Unavailable within the deadline; then it continues where it was', async () => {
    const { endpoint, pid } = await ownEtcd();
    const key = newKey();
    const election = new EtcdElection({ endpoints: [endpoint], key, timeoutMs: 300 });
    const patient = new EtcdElection({ endpoints: [endpoint], key });
    expect(await patient.requestSave('a', MINUTE_MS)).toBe(true);
    await freeze(pid);
    const beganMs = performance.now();
    await expect(election.requestSave('a', MINUTE_MS)).rejects.toMatchObject({
      code: 'Unavailable',
      message: expect.stringContaining('no answer in time'),
    });
    // The request waits for 300 ms. The rest allows for a machine that is busy with other tests.
    expect(performance.now() - beganMs).toBeLessThan(5000);
    process.kill(pid, 'SIGCONT');
    expect(await patient.requestSave('b', MINUTE_MS)).toBe(false);
    expect(await patient.requestSave('a', MINUTE_MS)).toBe(true);
  });

  test('killed, it elects no trainer: Unavailable; started again, it knows which trainer was elected', async () => {
    const dataDirectory = await mkdtemp(join(tmpdir(), 'holdfast-etcd-data-'));
    try {
      const first = await ownEtcd({ dataDirectory });
      const election = new EtcdElection({ endpoints: [first.endpoint], key: newKey() });
      expect(await election.requestSave('a', MINUTE_MS)).toBe(true);
      await first.stop();
      await expect(election.requestSave('a', MINUTE_MS)).rejects.toMatchObject({
        code: 'Unavailable',
        message: expect.stringContaining('ECONNREFUSED'),
      });
      const again = await ownEtcd({ dataDirectory, port: first.port });
      expect(again.endpoint).toBe(first.endpoint);
      expect(await election.requestSave('b', MINUTE_MS)).toBe(false);
      expect(await election.requestSave('a', MINUTE_MS)).toBe(true);
      await again.stop();
    } finally {
      await rm(dataDirectory, { recursive: true });
    }
  });

  test('one that asks for a password is Denied', async () => {
    const { endpoint } = await ownEtcd();
    await ask(endpoint, '/v3/auth/user/add', { name: 'root', password: 'secret' });
    await ask(endpoint, '/v3/auth/role/add', { name: 'root' });
    await ask(endpoint, '/v3/auth/user/grant', { user: 'root', role: 'root' });
    await ask(endpoint, '/v3/auth/enable');
    const election = new EtcdElection({ endpoints: [endpoint], key: newKey() });
    await expect(election.requestSave('a', MINUTE_MS)).rejects.toMatchObject({ code: 'Denied' });
  });
});
