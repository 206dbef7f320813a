/** Server programs, built from source at a pinned version when they are first needed. */

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { testConfig } from './config.ts';
import { hasErrorCode } from './error-code.ts';
import { readLogEnd } from './log-end.ts';
import { withProcessLock } from './process-lock.ts';
import { spawnTied } from './tied-process.ts';

export interface GoProgram {
  readonly name: string;
  /** Name of the file that `go install` writes, where it is another. */
  readonly binaryName?: string;
  readonly title: string;
  readonly path: string;
  readonly version: string;
}

export const MINIO: GoProgram = {
  name: 'minio',
  title: 'MinIO',
  path: 'github.com/minio/minio',
  version: 'v0.0.0-20260212201848-7aac2a2c5b7c',
};

export const VERSITYGW: GoProgram = {
  name: 'versitygw',
  title: 'versitygw',
  path: 'github.com/versity/versitygw/cmd/versitygw',
  version: 'v1.7.0',
};

export const FAKE_GCS: GoProgram = {
  name: 'fake-gcs-server',
  title: 'fake-gcs-server',
  path: 'github.com/fsouza/fake-gcs-server',
  version: 'v1.56.1',
};

export const TOXIPROXY: GoProgram = {
  name: 'toxiproxy',
  binaryName: 'server',
  title: 'Toxiproxy',
  path: 'github.com/Shopify/toxiproxy/v2/cmd/server',
  version: 'v2.12.0',
};

/** This machine cannot run the server; the message says why and what to do. Not thrown for a server that starts and then fails. */
export class ServerUnavailable extends Error {}

// Two cores build MinIO in three minutes, with an empty cache; a slow network comes on top.
const BUILD_TIMEOUT_MS = 20 * 60_000;

function say(line: string): void {
  process.stderr.write(`holdfast: ${line}\n`);
}

/** Path of the binary; builds it if it is not there. Safe for many processes at once, of which one builds. `ServerUnavailable` if it cannot. */
export async function goProgram(program: GoProgram): Promise<string> {
  const { cacheDirectory } = testConfig(process.env);
  const home = join(cacheDirectory, `${program.name}-${program.version}`);
  const binary = join(home, program.binaryName ?? program.name);
  if (existsSync(binary)) return binary;
  await mkdir(cacheDirectory, { recursive: true });
  const onWait = (owner: string) => say(`waiting for process ${owner}, which builds ${program.title}`);
  await withProcessLock(`${home}.lock`, { timeoutMs: BUILD_TIMEOUT_MS, onWait }, async () => {
    if (!existsSync(binary)) await build(program, cacheDirectory, home);
  });
  return binary;
}

async function requireGo(title: string): Promise<void> {
  try {
    await promisify(execFile)('go', ['version']);
  } catch (error) {
    const why = hasErrorCode(error, 'ENOENT') ? 'was not found' : 'does not run';
    throw new ServerUnavailable(
      `Go ${why}, and it is needed to build ${title}; install it (https://go.dev/dl)`,
    );
  }
}

async function build(program: GoProgram, cacheDirectory: string, home: string): Promise<void> {
  await requireGo(program.title);
  say(`building ${program.title} ${program.version} into ${home}, some minutes, once`);
  const temporary = await mkdtemp(join(cacheDirectory, '.build-'));
  try {
    await goInstall(program, temporary);
    await rename(temporary, home);
  } catch (error) {
    // Another process was faster: its binary is as good as ours.
    if (!hasErrorCode(error, 'ENOTEMPTY', 'EEXIST')) throw error;
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

async function goInstall(program: GoProgram, directory: string): Promise<void> {
  const logPath = join(directory, 'build.log');
  const log = await open(logPath, 'w');
  try {
    const env = { ...process.env, CGO_ENABLED: '0', GOBIN: directory } as Record<string, string>;
    const words = ['go', 'install', `${program.path}@${program.version}`];
    const running = spawnTied(words, { env, outputFd: log.fd, directory });
    const timer = setTimeout(() => running.child.kill('SIGKILL'), BUILD_TIMEOUT_MS);
    const how = await running.ended;
    clearTimeout(timer);
    if (how === 'status 0' && existsSync(join(directory, program.binaryName ?? program.name))) return;
    throw new ServerUnavailable(
      `${program.title} cannot be built: ${words.join(' ')} ended with ${how}:\n${await readLogEnd(logPath)}`,
    );
  } finally {
    await log.close();
  }
}
