import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ServerUnavailable } from './cached-build.ts';
import { freePort, type ServerPlan, startServer } from './start-server.ts';

/** A server that says that it listens, and then answers with its environment. */
const LISTENS = `
  console.log('started');
  require('node:http').createServer((_, response) => response.end(JSON.stringify(process.env)))
    .listen(Number(process.argv[1]), '127.0.0.1');
`;
const NEVER_READY = `console.log('thinking'); setInterval(() => undefined, 1000);`;
const DIES = `console.log('cannot go on'); process.exit(3);`;

let parent: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'holdfast-start-'));
});
afterEach(() => rmSync(parent, { recursive: true, force: true }));

function plan(script: string, more: Partial<ServerPlan> = {}): ServerPlan {
  return {
    title: 'Fake',
    parentDirectory: parent,
    command: ({ port }) => ({
      words: [process.execPath, '-e', script, String(port)],
      env: { ITS_OWN: 'yes' },
    }),
    isReady: async ({ port }) => (await fetch(`http://127.0.0.1:${port}`)).ok,
    ...more,
  };
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    // No process has this id.
    return false;
  }
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(20);
}

describe('a server that starts', () => {
  test('is ready when it is returned, has a log and a directory, and is gone after stop', async () => {
    const server = await startServer(plan(LISTENS));
    expect((await fetch(`http://127.0.0.1:${server.port}`)).ok).toBe(true);
    expect(isRunning(server.pid)).toBe(true);
    expect(readFileSync(server.logPath, 'utf8')).toContain('started');
    expect(server.logPath.startsWith(server.directory)).toBe(true);
    await server.stop();
    expect(isRunning(server.pid)).toBe(false);
    expect(readdirSync(parent)).toEqual([]);
    await server.stop();
  });

  test('sees nothing of our environment but PATH, and has a home of its own', async () => {
    vi.stubEnv('MINIO_ROOT_USER', 'somebody');
    const server = await startServer(plan(LISTENS));
    vi.unstubAllEnvs();
    const seen = (await (await fetch(`http://127.0.0.1:${server.port}`)).json()) as Record<string, string>;
    await server.stop();
    expect(seen).toMatchObject({ ITS_OWN: 'yes', PATH: process.env['PATH'], HOME: server.directory });
    expect(seen).not.toHaveProperty('MINIO_ROOT_USER');
  });

  test('finds what was prepared', async () => {
    const prepare = vi.fn();
    const server = await startServer(plan(LISTENS, { prepare }));
    await server.stop();
    expect(prepare).toHaveBeenCalledExactlyOnceWith(server.directory);
  });

  test('and ends by itself later says so, with the end of its log', async () => {
    const said = vi.spyOn(console, 'error').mockReturnValue();
    const server = await startServer(plan(LISTENS));
    process.kill(server.pid, 'SIGTERM');
    await until(() => said.mock.calls.length > 0);
    expect(said.mock.calls[0]?.[0]).toMatch(
      /^Fake, process \d+, ended by itself with signal SIGTERM.*started$/s,
    );
    said.mockRestore();
    await server.stop();
    expect(readdirSync(parent)).toEqual([]);
  });
});

describe('a server that does not start', () => {
  test('because it dies: how, and the end of its log', async () => {
    await expect(startServer(plan(DIES))).rejects.toThrow(
      /^Fake on port \d+ ended with status 3 before it was ready; the end of its log:\ncannot go on$/,
    );
    expect(readdirSync(parent)).toEqual([]);
  });

  test('because it never gets ready: the end of its log, and it does not run on', async () => {
    let pidFile = '';
    const script = `require('node:fs').writeFileSync('pid', String(process.pid)); ${NEVER_READY}`;
    const pids: number[] = [];
    const starting = startServer(
      plan(script, {
        readyTimeoutMs: 1000,
        isReady: async ({ directory }) => {
          pidFile = join(directory, 'pid');
          if (existsSync(pidFile)) pids.push(Number(readFileSync(pidFile, 'utf8')));
          return false;
        },
      }),
    );
    await expect(starting).rejects.toThrow(/was not ready after 1000 ms; the end of its log:\nthinking$/);
    expect(isRunning(pids.at(-1) as number)).toBe(false);
    expect(readdirSync(parent)).toEqual([]);
  });

  test('because there is no such program', async () => {
    const words = ['/no/such/program'];
    await expect(startServer(plan('', { command: () => ({ words, env: {} }) }))).rejects.toThrow(
      /status 127.*no\/such\/program/s,
    );
  });

  test('because the preparation failed', async () => {
    const prepare = () => Promise.reject(new Error('no certificate'));
    await expect(startServer(plan(LISTENS, { prepare }))).rejects.toThrow('no certificate');
    expect(readdirSync(parent)).toEqual([]);
  });

  test('because there is too little room, which is no failure of the server', async () => {
    const starting = startServer(plan(LISTENS, { roomBytesMin: 2 ** 60 }));
    await expect(starting).rejects.toThrow(ServerUnavailable);
    await expect(starting).rejects.toThrow(/Fake needs 1099511627776 MiB of room, and .* has \d+ MiB/);
  });
});

describe('a port that is taken', () => {
  test('is given up for another', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => {
      other.listen(0, '127.0.0.1', resolve);
    });
    const taken = (other.address() as { port: number }).port;
    const ports = [taken, await freePort()];
    const isReady = async ({ port }: { port: number }) =>
      port !== taken && (await fetch(`http://127.0.0.1:${port}`)).ok;
    const server = await startServer(
      plan(LISTENS, { isReady, pickPort: async () => ports.shift() as number }),
    );
    expect(server.port).not.toBe(taken);
    await server.stop();

    await expect(startServer(plan(LISTENS, { isReady, pickPort: async () => taken }))).rejects.toThrow(
      'EADDRINUSE',
    );
    await new Promise((resolve) => other.close(resolve));
    expect(readdirSync(parent)).toEqual([]);
  });
});
