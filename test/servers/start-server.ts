/**
 * Starts a server program on a free port of the loopback interface, in a new directory, and removes
 * both afterwards.
 */

import { mkdir, mkdtemp, open, rm, statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ServerUnavailable } from './cached-build.ts';
import { readLogEnd } from './log-end.ts';
import { spawnTied, type TiedProcess } from './tied-process.ts';

// A server without room goes offline, and its clients hang for minutes.
const ROOM_BYTES_MIN = 2 * 1024 ** 3;
const READY_TIMEOUT_MS = 30_000;
const READY_POLL_MS = 25;
const PORT_ATTEMPTS_MAX = 5;

export interface ServerPlan {
  readonly title: string;
  /** Parent of the server's directory. Default: the directory for temporary files. */
  readonly parentDirectory?: string | undefined;
  readonly readyTimeoutMs?: number;
  readonly roomBytesMin?: number;
  /** Called before each start, to write files into the server's directory. */
  prepare?(directory: string): Promise<void>;
  /**
   * Data belongs below `directory`. The server gets only PATH and HOME of this process's
   * environment.
   */
  command(place: { port: number; directory: string }): {
    words: readonly string[];
    env: Record<string, string>;
  };
  /**
   * True once the server answers and is the one that was started: another program may have taken
   * its port. Called until it returns true. It must not hang. It may throw, which means not yet.
   */
  isReady(place: { port: number; directory: string }): Promise<boolean>;
  /** Picks a port. Tests of the launcher pass a port that is taken. */
  pickPort?(): Promise<number>;
}

export interface RunningServer {
  readonly port: number;
  readonly pid: number;
  readonly directory: string;
  /** A file in `directory`. */
  readonly logPath: string;
  /** Ends the process, waits for its end and removes its directory. Safe to call again. */
  stop(): Promise<void>;
}

/** A port that was free a moment ago, and may be taken since. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port is free');
  return address.port;
}

/** Throws `ServerUnavailable` if the file system has less room than a server needs. */
export async function requireRoom(title: string, directory: string, roomBytesMin: number): Promise<void> {
  const { bavail, bsize } = await statfs(directory);
  if (bavail * bsize >= roomBytesMin) return;
  const mib = (bytes: number) => `${Math.floor(bytes / 1024 ** 2)} MiB`;
  throw new ServerUnavailable(
    `${title} needs ${mib(roomBytesMin)} of room, and ${directory} has ${mib(bavail * bsize)}; free some or set TMPDIR`,
  );
}

/** `requireRoom` with the values that `startServer` uses. */
export function requireServerRoom(title: string): Promise<void> {
  return requireRoom(title, tmpdir(), ROOM_BYTES_MIN);
}

/**
 * Resolves when the server is ready. The server ends with this process at the latest, even if this
 * process is killed. Throws `ServerUnavailable` if there is too little room. Any other error
 * contains the end of the server's log.
 */
export async function startServer(plan: ServerPlan): Promise<RunningServer> {
  const parent = plan.parentDirectory ?? tmpdir();
  await mkdir(parent, { recursive: true });
  await requireRoom(plan.title, parent, plan.roomBytesMin ?? ROOM_BYTES_MIN);
  for (let attempt = 1; ; attempt++) {
    const started = await startOnce(plan, parent, await (plan.pickPort ?? freePort)());
    if ('server' in started) return started.server;
    if (started.failure !== 'port taken' || attempt === PORT_ATTEMPTS_MAX) throw started.error;
  }
}

type Started = { server: RunningServer } | { failure: 'port taken' | 'other'; error: Error };

async function startOnce(plan: ServerPlan, parent: string, port: number): Promise<Started> {
  const directory = await mkdtemp(join(parent, `holdfast-${plan.title.toLowerCase()}-`));
  const logPath = join(directory, 'server.log');
  const remove = () => rm(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  try {
    await plan.prepare?.(directory);
    const process = await spawnServer(plan, { directory, port, logPath });
    const fault = await waitUntilReady(plan, process, { directory, port });
    if (fault === undefined)
      return { server: runningServer(plan, process, { directory, port, logPath, remove }) };
    await process.kill();
    const log = await readLogEnd(logPath);
    await remove();
    const failure = /already in use|EADDRINUSE/i.test(log) ? 'port taken' : 'other';
    return {
      failure,
      error: new Error(`${plan.title} on port ${port} ${fault}; the end of its log:\n${log}`),
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

interface Place {
  readonly directory: string;
  readonly port: number;
}

async function spawnServer(plan: ServerPlan, place: Place & { logPath: string }): Promise<TiedProcess> {
  const { words, env } = plan.command(place);
  const log = await open(place.logPath, 'w');
  try {
    return spawnTied(words, {
      env: { PATH: process.env['PATH'] ?? '', HOME: place.directory, ...env },
      outputFd: log.fd,
      directory: place.directory,
    });
  } finally {
    await log.close();
  }
}

/** The failure in words, or `undefined` if the server is ready. */
async function waitUntilReady(
  plan: ServerPlan,
  process: TiedProcess,
  place: Place,
): Promise<string | undefined> {
  const timeoutMs = plan.readyTimeoutMs ?? READY_TIMEOUT_MS;
  const deadline = Date.now() + timeoutMs;
  let how: string | undefined;
  void process.ended.then((words) => {
    how = words;
  });
  while (Date.now() < deadline) {
    const isReady = await plan.isReady(place).catch(() => false);
    if (how !== undefined) return `ended with ${how} before it was ready`;
    if (isReady) return undefined;
    await Promise.race([sleep(READY_POLL_MS), process.ended]);
  }
  return `was not ready after ${timeoutMs} ms`;
}

function runningServer(
  plan: ServerPlan,
  tied: TiedProcess,
  place: Place & { logPath: string; remove: () => Promise<void> },
): RunningServer {
  const { port, directory, logPath, remove } = place;
  let isStopping = false;
  void tied.ended.then(async (how) => {
    if (isStopping) return;
    const log = await readLogEnd(logPath);
    console.error(
      `${plan.title}, process ${tied.pid}, ended by itself with ${how}; the end of its log:\n${log}`,
    );
  });
  const stop = async () => {
    isStopping = true;
    await tied.kill();
    await remove();
  };
  return { port, pid: tied.pid, directory, logPath, stop };
}
