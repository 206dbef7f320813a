/** Tests how etcd is found on different machines. Scripts stand in for apt-get and dpkg. */

import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ServerUnavailable } from './cached-build.ts';
import { ETCD_FILE, ETCD_HOME, etcdProgram } from './etcd-program.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-etcd-program-'));
  mkdirSync(join(directory, 'bin'));
  vi.stubEnv('PATH', join(directory, 'bin'));
  vi.stubEnv('HOLDFAST_CACHE', join(directory, 'cache'));
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  rmSync(directory, { recursive: true });
});

const fetched = () => join(directory, 'cache', ETCD_HOME, ETCD_FILE);

function program(name: string, lines: string): void {
  writeFileSync(join(directory, 'bin', name), `#!/bin/sh\n${lines}\n`, { mode: 0o755 });
}

/** Logs each call as a line. `update` fails, and `download` runs the given script. */
function aptGet(download: string): void {
  const log = join(directory, 'apt.log');
  program('apt-get', `echo "$*" >> '${log}'\ncase "$*" in *update) exit 100;; esac\n${download}`);
}

const downloaded = ': > etcd-server_3.4.23_amd64.deb';
const failsOnce = (directoryOfNote: string) =>
  `[ -e '${directoryOfNote}/note' ] || { : > '${directoryOfNote}/note'; echo 'E: Hash Sum mismatch'; exit 100; }`;

function dpkg(): void {
  const etcd = `'#!/bin/sh\\necho etcd Version: 3.4.23\\n'`;
  program(
    'dpkg',
    `/bin/mkdir -p "$3/usr/bin" && cd "$3/usr/bin" && printf ${etcd} > etcd && /bin/chmod +x etcd`,
  );
}

function asked(): string[] {
  const lines = readFileSync(join(directory, 'apt.log'), 'utf8').trim().split('\n');
  return lines.map((line) =>
    line.endsWith(' download etcd-server') ? 'download' : (line.split(' ').at(-1) ?? ''),
  );
}

const failure = (timeoutMs = 60_000): Promise<unknown> =>
  etcdProgram({ triesMax: 2, pauseMs: 0, timeoutMs }).catch((error: unknown) => error);

test('from the distribution, though one of its sources cannot be reached, and the mirror is being renewed', async () => {
  aptGet(`${failsOnce(directory)}\n${downloaded}`);
  dpkg();
  expect(await etcdProgram({ triesMax: 2, pauseMs: 0, timeoutMs: 60_000 })).toBe(fetched());
  expect(asked()).toEqual(['update', 'download', 'update', 'download']);
  expect(readdirSync(join(directory, 'cache', ETCD_HOME)).toSorted()).toEqual(['build.log', 'usr']);
});

test('lists, cache, locks and the state of packages are in the cache: nothing of the machine is written or locked', async () => {
  aptGet(downloaded);
  dpkg();
  await failure();
  const [words = ''] = readFileSync(join(directory, 'apt.log'), 'utf8').split('\n');
  for (const name of ['State', 'State::Lists', 'State::status', 'Cache']) {
    const value = new RegExp(` -o Dir::${name}=(\\S+)`).exec(words)?.[1];
    expect(value).toMatch(new RegExp(`^${join(directory, 'cache')}/\\.build-\\w+/apt`));
  }
});

test('a mirror that does not have it is asked twice; then the error says what to install, and what apt-get said', async () => {
  aptGet('echo "E: Unable to locate package etcd-server"; exit 100');
  const error = await failure();
  expect(error).toBeInstanceOf(ServerUnavailable);
  expect((error as Error).message).toMatch(
    /^etcd is not on the PATH, and this distribution does not give it; install etcd-server [\s\S]*E: Unable to locate package/,
  );
  expect(asked()).toEqual(['update', 'download', 'update', 'download']);
});

test('a program that does not run does not count', async () => {
  aptGet(downloaded);
  program('dpkg', '/bin/mkdir -p "$3/usr/bin" && : > "$3/usr/bin/etcd"');
  expect(await failure()).toBeInstanceOf(ServerUnavailable);
  expect(readdirSync(join(directory, 'cache'))).toEqual([]);
});

test('a mirror that hangs is given up', async () => {
  program('apt-get', 'exec /bin/sleep 600');
  const error = await failure(200);
  expect(error).toBeInstanceOf(ServerUnavailable);
  expect((error as Error).message).toContain('SIGKILL');
});

test('without apt-get the error says so, and nothing is tried', async () => {
  expect(String(await failure())).toContain(
    'install etcd-server of Debian or its kin, or put an etcd 3.4 or newer',
  );
});

test('one on the PATH is taken, and no mirror asked', async () => {
  program('etcd', 'echo etcd Version: 3.5.16');
  program('apt-get', 'exit 1');
  expect(await etcdProgram()).toBe(fetched());
  expect(readlinkSync(fetched())).toBe(join(directory, 'bin', 'etcd'));
});

test.each(['3.3.25', '2.3.8'])(
  'one of version %s on the PATH is too old: the distribution gives another',
  async (version) => {
    program('etcd', `echo etcd Version: ${version}`);
    aptGet(downloaded);
    expect(String(await failure())).toContain(`${join(directory, 'bin', 'etcd')} is no etcd 3.4 or newer`);
    dpkg();
    expect(await etcdProgram()).toBe(fetched());
  },
);
