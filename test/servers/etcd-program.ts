/**
 * etcd: the program on the PATH, or else the package of Debian and its derivatives, unpacked into
 * the cache without root rights.
 */

import { execFile } from 'node:child_process';
import { mkdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { cachedBuild, ServerUnavailable } from './cached-build.ts';
import { type DebianFetch, PATIENT, pathOf, unpackDebianPackages } from './debian-packages.ts';

export const ETCD_TITLE = 'etcd';

/** Name of the directory in the cache. The version is the distribution's: 3.4.23 in Debian 12. */
export const ETCD_HOME = 'etcd-server-of-distribution';
export const ETCD_FILE = 'usr/bin/etcd';

/** Without it, Debian's build for this processor does not even print its version. */
export const ETCD_ENV: Readonly<Record<string, string>> =
  process.arch === 'arm64' ? { ETCD_UNSUPPORTED_ARCH: 'arm64' } : {};

const PACKAGE = 'etcd-server';
/** The first version whose gateway is below `/v3`. */
const VERSION_MIN = [3, 4] as const;

/**
 * Returns the path of the program, and fetches it if it is missing, as `cachedBuild` does. Throws
 * `ServerUnavailable` if it cannot be fetched.
 */
export async function etcdProgram(fetch: DebianFetch = PATIENT): Promise<string> {
  const build = async (directory: string) => {
    const found = await fromPath(directory);
    if (found !== 'linked') await fromDistribution(directory, found, fetch);
  };
  return cachedBuild({ title: ETCD_TITLE, home: ETCD_HOME, file: ETCD_FILE, build });
}

/**
 * Links the etcd on the PATH and returns `linked`. If it is missing or too old, returns that in
 * words.
 */
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

async function fromDistribution(directory: string, found: string, fetch: DebianFetch): Promise<void> {
  const check = [join(directory, ETCD_FILE), '--version'];
  const wanted = { title: ETCD_TITLE, names: [PACKAGE], directory, env: ETCD_ENV, check };
  try {
    await unpackDebianPackages(wanted, fetch);
  } catch (error) {
    if (!(error instanceof ServerUnavailable)) throw error;
    throw new ServerUnavailable(
      `${found}, and this distribution does not give it; install ${PACKAGE} of Debian or its kin, or put an etcd ${VERSION_MIN.join('.')} or newer on the PATH (${error.message})`,
    );
  }
}
