/** Unpacks packages of Debian and its derivatives into a directory. Root rights are not needed. */

import { execFile } from 'node:child_process';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { runBuildStep, ServerUnavailable, say } from './cached-build.ts';

export interface DebianFetch {
  /**
   * How often to ask the mirror. While a mirror is being updated, its lists and packages do not
   * match.
   */
  readonly triesMax: number;
  readonly pauseMs: number;
  /** Limit for all tries together. */
  readonly timeoutMs: number;
}

// Enough to fetch 20 MB twice from a mirror that gives 100 kB/s.
export const PATIENT: DebianFetch = { triesMax: 2, pauseMs: 5_000, timeoutMs: 7 * 60_000 };

export interface DebianPackages {
  /** Purpose of the packages, for messages. */
  readonly title: string;
  /**
   * Names as `apt-get download` takes them. `libc6:arm64` is the package for another architecture.
   */
  readonly names: readonly string[];
  /** Also the packages that these depend on and that this machine does not have. */
  readonly withDependencies?: boolean;
  /** Debian's name of the other architecture, if packages are for one. */
  readonly foreign?: string;
  /** The files of each package go below this directory. */
  readonly directory: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Command line that checks whether the unpacked program runs. */
  readonly check: readonly string[];
}

/** Path of a command, or empty if it is not on the PATH. */
export async function pathOf(command: string): Promise<string> {
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', `command -v ${command} || true`]);
  return stdout.trim();
}

/**
 * Unpacks packages into the directory. Throws `ServerUnavailable`, with the output, if they cannot
 * be fetched or do not run.
 */
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
  // It also fails if a third-party source of the machine is unreachable. That does not matter if
  // the packages can be fetched.
  await run(...apt, 'update').catch(() => undefined);
  const names = wanted.withDependencies ? await withDependencies(apt, wanted.names, env) : wanted.names;
  await run(...apt, 'download', ...names);
  const files = (await readdir(directory)).filter((name) => name.endsWith('.deb'));
  if (files.length !== names.length) {
    throw new ServerUnavailable(`apt-get has downloaded ${files.length} of ${names.join(', ')}`);
  }
  for (const file of files) {
    await run('dpkg', '-x', join(directory, file), directory);
    await rm(join(directory, file));
  }
  await run(...wanted.check);
  await rm(join(directory, 'apt'), { recursive: true });
}

/** The packages, and those that an installation on this machine would add. */
async function withDependencies(
  apt: readonly string[],
  names: readonly string[],
  env: Record<string, string>,
): Promise<string[]> {
  const [program = '', ...rest] = apt;
  const installed = ['-o', 'Dir::State::status=/var/lib/dpkg/status'];
  const words = [...rest, ...installed, '--simulate', '--no-install-recommends', 'install', ...names];
  const { stdout } = await promisify(execFile)(program, words, { env, maxBuffer: 2 ** 24 }).catch(
    (error: Error) => {
      throw new ServerUnavailable(`apt-get cannot tell what ${names.join(', ')} need: ${error.message}`);
    },
  );
  const added = [...stdout.matchAll(/^Inst (\S+)/gm)].map(([, name]) => name as string);
  return [...new Set([...names, ...added])];
}

/**
 * The words that begin an apt command. Lists, cache, locks and packages lie below `home`: those of
 * the machine belong to root and may be locked by another installation, and images are shipped
 * without lists. The sources are the machine's.
 */
async function privateApt(home: string, foreign: string | undefined): Promise<string[]> {
  await mkdir(join(home, 'lists', 'partial'), { recursive: true });
  await mkdir(join(home, 'archives', 'partial'), { recursive: true });
  await writeFile(join(home, 'status'), '');
  // Hooks that the machine runs when its own lists were updated.
  const hooks = ['APT::Update::Post-Invoke', 'APT::Update::Post-Invoke-Success'];
  const config = join(home, 'apt.conf');
  await writeFile(config, hooks.map((name) => `#clear ${name};\n`).join(''));
  const settings = {
    'Dir::State': home,
    'Dir::State::Lists': join(home, 'lists'),
    'Dir::State::status': join(home, 'status'),
    'Dir::Cache': home,
    // No change of user: only root could change it, and the other user may not write here.
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
    'Acquire::Retries': '2',
    'Acquire::http::Timeout': '20',
    'Acquire::https::Timeout': '20',
    // In addition to the machine's own architecture.
    ...(foreign === undefined ? {} : { 'APT::Architectures::': foreign }),
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  return ['apt-get', '-qq', '-c', config, ...options];
}
