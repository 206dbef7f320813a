/** Programs that tests need, made when they are first needed and kept in the cache by name and version. */

import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { testConfig } from './config.ts';
import { readLogEnd } from './log-end.ts';
import { withProcessLock } from './process-lock.ts';
import { spawnTied } from './tied-process.ts';

/** This machine cannot run the program; the message says why and what to do. Not thrown for a server that starts and then fails. */
export class ServerUnavailable extends Error {}

// Two cores build MinIO in three minutes, with an empty cache; a slow network comes on top.
const BUILD_TIMEOUT_MS = 20 * 60_000;

export interface CachedBuild {
  readonly title: string;
  /** Of the directory in the cache; says what is in it, to the version. */
  readonly home: string;
  /** Path within it of the program. */
  readonly file: string;
  /** Makes all of it in this directory, which is then given its name. `ServerUnavailable` if it cannot. */
  build(directory: string): Promise<void>;
}

export function say(line: string): void {
  process.stderr.write(`holdfast: ${line}\n`);
}

/** Path of the program; builds it if it is not there. Safe for many processes at once, of which one builds. `ServerUnavailable` if it cannot. */
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
    // What lies there without its program is of no use: a link to a Python that has been removed since, say.
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
  /** 20 minutes if not given. */
  readonly timeoutMs?: number | undefined;
}

/** Runs a command of a build in its directory. `ServerUnavailable` with the last words of the command if it fails. */
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
