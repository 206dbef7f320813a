/** etcd: the one on the PATH, or else the package of Debian and its kin, taken apart into the cache, for which nobody has to be root. */

import { execFile } from 'node:child_process';
import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { cachedBuild, runBuildStep, ServerUnavailable, say } from './cached-build.ts';

export const ETCD_TITLE = 'etcd';

/** Of the directory in the cache. The version is the distribution's: 3.4.23 in Debian 12. */
export const ETCD_HOME = 'etcd-server-of-distribution';
export const ETCD_FILE = 'usr/bin/etcd';

/** Without, Debian's build for this processor does not even say its version. */
export const ETCD_ENV: Readonly<Record<string, string>> =
  process.arch === 'arm64' ? { ETCD_UNSUPPORTED_ARCH: 'arm64' } : {};

const PACKAGE = 'etcd-server';
/** The first one whose gateway is below `/v3`. */
const VERSION_MIN = [3, 4] as const;

export interface EtcdFetch {
  /** How often the mirror is asked: while it is being renewed, its lists and its packages are not of one day. */
  readonly triesMax: number;
  readonly pauseMs: number;
  /** For all of it. */
  readonly timeoutMs: number;
}

// 20 MB from a mirror that gives 100 kB/s, twice.
const PATIENT: EtcdFetch = { triesMax: 2, pauseMs: 5_000, timeoutMs: 7 * 60_000 };

/** Path of the program; gets it if it is not there, as `cachedBuild` does. `ServerUnavailable` if it cannot be had. */
export async function etcdProgram(fetch: EtcdFetch = PATIENT): Promise<string> {
  const build = async (directory: string) => {
    const found = await fromPath(directory);
    if (found !== 'linked') await fromDistribution(directory, found, fetch);
  };
  return cachedBuild({ title: ETCD_TITLE, home: ETCD_HOME, file: ETCD_FILE, build });
}

/** What to say of the PATH, if it has none that is new enough. */
async function fromPath(directory: string): Promise<string> {
  const path = await pathOf('etcd');
  if (path === '') return 'etcd is not on the PATH';
  const env = { ...process.env, ...ETCD_ENV };
  const said = await promisify(execFile)(path, ['--version'], { env }).catch(() => ({ stdout: '' }));
  const version = /^etcd Version: (\d+)\.(\d+)/m.exec(said.stdout);
  const [major, minor] = [Number(version?.[1] ?? 0), Number(version?.[2] ?? 0)];
  if (major < VERSION_MIN[0] || (major === VERSION_MIN[0] && minor < VERSION_MIN[1])) {
    return `${path} is no etcd ${VERSION_MIN.join('.')} or newer`;
  }
  const file = join(directory, ETCD_FILE);
  await mkdir(dirname(file), { recursive: true });
  await symlink(path, file);
  return 'linked';
}

/** Empty if it is not on the PATH. */
async function pathOf(command: string): Promise<string> {
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', `command -v ${command} || true`]);
  return stdout.trim();
}

async function fromDistribution(directory: string, found: string, fetch: EtcdFetch): Promise<void> {
  if ((await pathOf('apt-get')) === '') throw unavailable(found, 'it has no apt-get');
  say(`fetching ${PACKAGE} of this distribution, some seconds, once`);
  const untilMs = performance.now() + fetch.timeoutMs;
  for (let tryCount = 1; ; tryCount++) {
    try {
      return await fetchPackage(directory, untilMs);
    } catch (error) {
      if (!(error instanceof ServerUnavailable)) throw error;
      if (tryCount >= fetch.triesMax || performance.now() + fetch.pauseMs >= untilMs) {
        throw unavailable(found, error.message);
      }
      say(`${PACKAGE} could not be fetched; once more`);
      await sleep(fetch.pauseMs);
    }
  }
}

function unavailable(found: string, why: string): ServerUnavailable {
  return new ServerUnavailable(
    `${found}, and this distribution does not give it; install ${PACKAGE} of Debian or its kin, or put an etcd ${VERSION_MIN.join('.')} or newer on the PATH (${why})`,
  );
}

async function fetchPackage(directory: string, untilMs: number): Promise<void> {
  const env = { ...(process.env as Record<string, string>), ...ETCD_ENV };
  const run = (...words: readonly string[]) => {
    const timeoutMs = Math.max(1, untilMs - performance.now());
    return runBuildStep({ title: ETCD_TITLE, words, env, directory, timeoutMs });
  };
  const apt = await privateApt(join(directory, 'apt'));
  // It fails as well where one of somebody else's sources cannot be reached. What counts is whether the package can be had then.
  await run(...apt, 'update').catch(() => undefined);
  await run(...apt, 'download', PACKAGE);
  const file = (await readdir(directory)).find((name) => name.endsWith('.deb'));
  if (file === undefined) throw new ServerUnavailable(`apt-get has downloaded no ${PACKAGE}`);
  await run('dpkg', '-x', join(directory, file), directory);
  await run(join(directory, ETCD_FILE), '--version');
  await rm(join(directory, file));
  await rm(join(directory, 'apt'), { recursive: true });
}

/**
 * The words that begin a command of apt with lists, a cache, locks and packages of its own below `home`: those of the machine belong to root, may
 * be locked by somebody who installs, and images are shipped without lists. Where packages come from is said by the machine.
 */
async function privateApt(home: string): Promise<string[]> {
  await mkdir(join(home, 'lists', 'partial'), { recursive: true });
  await mkdir(join(home, 'archives', 'partial'), { recursive: true });
  await writeFile(join(home, 'status'), '');
  // What the machine does when its own lists are new.
  const hooks = ['APT::Update::Post-Invoke', 'APT::Update::Post-Invoke-Success'];
  const config = join(home, 'apt.conf');
  await writeFile(config, hooks.map((name) => `#clear ${name};\n`).join(''));
  const settings = {
    'Dir::State': home,
    'Dir::State::Lists': join(home, 'lists'),
    'Dir::State::status': join(home, 'status'),
    'Dir::Cache': home,
    'APT::Sandbox::User': 'root', // as whoever runs it: only root could be another one, who may not write here
    'Acquire::Languages': 'none',
    'Acquire::Retries': '2',
    'Acquire::http::Timeout': '20',
    'Acquire::https::Timeout': '20',
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  return ['apt-get', '-qq', '-c', config, ...options];
}
