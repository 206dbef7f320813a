/** etcd as Debian and its kin have it, taken apart into the cache; root is not needed. Where they cannot give it, the one on the PATH. */

import { execFile } from 'node:child_process';
import { mkdir, readdir, rm, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { cachedBuild, runBuildStep, ServerUnavailable, say } from './cached-build.ts';

export const ETCD_TITLE = 'etcd';

/** Of the directory in the cache. The version is the distribution's: 3.4.23 in Debian 12. */
export const ETCD_HOME = 'etcd-server-of-distribution';
export const ETCD_FILE = 'usr/bin/etcd';

const PACKAGE = 'etcd-server';

/** Path of the program; fetches it if it is not there, as `cachedBuild` does. `ServerUnavailable` if it cannot be had. */
export async function etcdProgram(): Promise<string> {
  return cachedBuild({ title: ETCD_TITLE, home: ETCD_HOME, file: ETCD_FILE, build });
}

async function build(directory: string): Promise<void> {
  try {
    await fromDistribution(directory);
  } catch (error) {
    if (!(error instanceof ServerUnavailable)) throw error;
    await fromPath(directory, error);
  }
}

async function fromDistribution(directory: string): Promise<void> {
  say(`fetching ${PACKAGE} of this distribution, some seconds, once`);
  const env = { ...process.env } as Record<string, string>;
  const run = (words: readonly string[]) => runBuildStep({ title: ETCD_TITLE, words, env, directory });
  // Lists of its own: those of the machine may be missing (images are shipped without), and belong to root.
  const state = join(directory, 'apt');
  await mkdir(join(state, 'lists', 'partial'), { recursive: true });
  await mkdir(join(state, 'archives', 'partial'), { recursive: true });
  const settings = {
    'Dir::State': state,
    'Dir::State::Lists': join(state, 'lists'),
    'Dir::State::status': '/var/lib/dpkg/status',
    'Dir::Cache': state,
    'APT::Sandbox::User': 'root', // as whoever runs it: only root could be another one, who may not write here
    'Acquire::Retries': '1',
    'Acquire::http::Timeout': '20',
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  await run(['apt-get', '-qq', ...options, 'update']);
  await run(['apt-get', '-qq', ...options, 'download', PACKAGE]);
  const file = (await readdir(directory)).find((name) => name.endsWith('.deb'));
  await run(['dpkg', '-x', join(directory, file ?? `${PACKAGE}.deb`), directory]);
  await run([join(directory, ETCD_FILE), '--version']);
  await rm(state, { recursive: true });
  if (file !== undefined) await rm(join(directory, file));
}

async function fromPath(directory: string, why: ServerUnavailable): Promise<void> {
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', 'command -v etcd || true']);
  const found = stdout.trim();
  if (found === '') {
    throw new ServerUnavailable(
      `etcd is not on the PATH, and this distribution does not give it; install ${PACKAGE} (${why.message})`,
    );
  }
  const file = join(directory, ETCD_FILE);
  await mkdir(dirname(file), { recursive: true });
  await symlink(found, file);
}
