/**
 * Programs that tests need. They are built at first use and kept in the cache by name and version.
 */

import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { testConfig } from './config.ts';
import { readLogEnd } from './log-end.ts';
import { withProcessLock } from './process-lock.ts';
import { spawnTied } from './tied-process.ts';

/**
 * This machine cannot run the program. The message says why and what to do. Not thrown for a server
 * that starts and then fails.
 */
export class ServerUnavailable extends Error {}

// Two cores build MinIO in three minutes with an empty cache. The rest allows for a slow network.
const BUILD_TIMEOUT_MS = 20 * 60_000;

export interface CachedBuild {
  readonly title: string;
  /**
   * Name of the directory in the cache. It says what the directory contains, including the version.
   */
  readonly home: string;
  /** Path of the program within `home`. */
  readonly file: string;
  /**
   * Builds everything in this directory, which is then renamed to `home`. Throws
   * `ServerUnavailable` if the build fails.
   */
  build(directory: string): Promise<void>;
}

export function say(line: string): void {
  process.stderr.write(`holdfast: ${line}\n`);
}

/**
 * Returns the path of the program, and builds it if it is missing. Safe for many processes at once:
 * one of them builds. Throws `ServerUnavailable` if the build fails.
 */
export async function cachedBuild(wanted: CachedBuild): Promise<string> {
  const { cacheDirectory } = testConfig(process.env);
  const home = join(cacheDirectory, wanted.home);
  const file = join(home, wanted.file);
  if (existsSync(file)) return file;
  await mkdir(cacheDirectory, { recursive: true });
  const onWait = (owner: string) => say(`waiting for process ${owner}, which builds ${wanted.title}`);
  await withProcessLock(`${home}.lock`, { timeoutMs: BUILD_TIMEOUT_MS, onWait }, async () => {
    if (!existsSync(file)) await build(wanted, cacheDirectory, home);
  });
  return file;
}

async function build(wanted: CachedBuild, cacheDirectory: string, home: string): Promise<void> {
  const temporary = await mkdtemp(join(cacheDirectory, '.build-'));
  try {
    await wanted.build(temporary);
    // A directory without a working program is useless, for example a link to a Python that was
    // removed.
    await rm(home, { recursive: true, force: true });
    await rename(temporary, home);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

export interface BuildStep {
  readonly title: string;
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly directory: string;
  /** Default: 20 minutes. */
  readonly timeoutMs?: number | undefined;
}

/**
 * Runs a command of a build in its directory. Throws `ServerUnavailable` with the end of the
 * command's output if it fails.
 */
export async function runBuildStep({
  title,
  words,
  env,
  directory,
  timeoutMs = BUILD_TIMEOUT_MS,
}: BuildStep): Promise<void> {
  const logPath = join(directory, 'build.log');
  const log = await open(logPath, 'a');
  try {
    const running = spawnTied(words, { env, outputFd: log.fd, directory });
    const timer = setTimeout(() => running.child.kill('SIGKILL'), timeoutMs);
    const how = await running.ended;
    clearTimeout(timer);
    if (how !== 'status 0') throw await buildFailure(title, words, how, directory);
  } finally {
    await log.close();
  }
}

export async function buildFailure(
  title: string,
  words: readonly string[],
  how: string,
  directory: string,
): Promise<ServerUnavailable> {
  const lines = await readLogEnd(join(directory, 'build.log'));
  return new ServerUnavailable(`${title} cannot be built: ${words.join(' ')} ended with ${how}:\n${lines}`);
}
