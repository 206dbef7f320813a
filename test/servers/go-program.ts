/** Server programs, built from source at a pinned version at first use. */

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { buildFailure, cachedBuild, runBuildStep, ServerUnavailable, say } from './cached-build.ts';
import { testConfig } from './config.ts';
import { hasErrorCode } from './error-code.ts';

export interface GoProgram {
  readonly name: string;
  /** Name of the file that `go install` writes, if it differs. */
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

/**
 * Returns the path of the binary, and builds it if it is missing, as `cachedBuild` does. Throws
 * `ServerUnavailable` if the build fails.
 */
export async function goProgram(program: GoProgram): Promise<string> {
  const { title } = program;
  const home = `${program.name}-${program.version}`;
  const file = program.binaryName ?? program.name;
  return cachedBuild({ title, home, file, build: (directory) => build(program, directory, { home, file }) });
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

async function build(
  program: GoProgram,
  directory: string,
  { home, file }: { home: string; file: string },
): Promise<void> {
  const { title, path, version } = program;
  await requireGo(title);
  const into = join(testConfig(process.env).cacheDirectory, home);
  say(`building ${title} ${version} into ${into}, some minutes, once`);
  const env = { ...process.env, CGO_ENABLED: '0', GOBIN: directory } as Record<string, string>;
  const words = ['go', 'install', `${path}@${version}`];
  await runBuildStep({ title, words, env, directory });
  if (!existsSync(join(directory, file))) throw await buildFailure(title, words, 'status 0', directory);
}
