/** Packages of Debian and its kin, taken apart into a directory, for which nobody has to be root. */

import { execFile } from 'node:child_process';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { runBuildStep, ServerUnavailable, say } from './cached-build.ts';

export interface DebianFetch {
  /** How often the mirror is asked: while it is being renewed, its lists and its packages are not of one day. */
  readonly triesMax: number;
  readonly pauseMs: number;
  /** For all of it. */
  readonly timeoutMs: number;
}

// 20 MB from a mirror that gives 100 kB/s, twice.
export const PATIENT: DebianFetch = { triesMax: 2, pauseMs: 5_000, timeoutMs: 7 * 60_000 };

export interface DebianPackages {
  /** What the packages are for. */
  readonly title: string;
  /** As `apt-get download` takes them: `libc6:arm64` is the one for another machine. */
  readonly names: readonly string[];
  /** Debian's name of another machine that packages are for. */
  readonly foreign?: string;
  /** Each package's files go below it. */
  readonly directory: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Words of a command that shows whether what was unpacked runs. */
  readonly check: readonly string[];
}

/** Path of a command; empty if it is not on the PATH. */
export async function pathOf(command: string): Promise<string> {
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', `command -v ${command} || true`]);
  return stdout.trim();
}

/** Unpacks packages into the directory. `ServerUnavailable`, with what was said, if they cannot be had or do not run. */
export async function unpackDebianPackages(wanted: DebianPackages, fetch: DebianFetch): Promise<void> {
  if ((await pathOf('apt-get')) === '') throw new ServerUnavailable('it has no apt-get');
  say(`fetching ${wanted.names.join(', ')} of this distribution, some seconds, once`);
  const untilMs = performance.now() + fetch.timeoutMs;
  for (let tryCount = 1; ; tryCount++) {
    try {
      return await fetchOnce(wanted, untilMs);
    } catch (error) {
      if (!(error instanceof ServerUnavailable)) throw error;
      if (tryCount >= fetch.triesMax || performance.now() + fetch.pauseMs >= untilMs) throw error;
      say(`${wanted.title} could not be fetched; once more`);
      await sleep(fetch.pauseMs);
    }
  }
}

async function fetchOnce(wanted: DebianPackages, untilMs: number): Promise<void> {
  const { title, directory } = wanted;
  const env = { ...(process.env as Record<string, string>), ...wanted.env };
  const run = (...words: readonly string[]) => {
    const timeoutMs = Math.max(1, untilMs - performance.now());
    return runBuildStep({ title, words, env, directory, timeoutMs });
  };
  const apt = await privateApt(join(directory, 'apt'), wanted.foreign);
  // It fails as well where one of somebody else's sources cannot be reached. What counts is whether the packages can be had then.
  await run(...apt, 'update').catch(() => undefined);
  await run(...apt, 'download', ...wanted.names);
  const files = (await readdir(directory)).filter((name) => name.endsWith('.deb'));
  if (files.length !== wanted.names.length) {
    throw new ServerUnavailable(`apt-get has downloaded ${files.length} of ${wanted.names.join(', ')}`);
  }
  for (const file of files) {
    await run('dpkg', '-x', join(directory, file), directory);
    await rm(join(directory, file));
  }
  await run(...wanted.check);
  await rm(join(directory, 'apt'), { recursive: true });
}

/**
 * The words that begin a command of apt with lists, a cache, locks and packages of its own below `home`: those of the machine belong to root, may
 * be locked by somebody who installs, and images are shipped without lists. Where packages come from is said by the machine.
 */
async function privateApt(home: string, foreign: string | undefined): Promise<string[]> {
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
    // Beside the machine's own.
    ...(foreign === undefined ? {} : { 'APT::Architectures::': foreign }),
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  return ['apt-get', '-qq', '-c', config, ...options];
}
