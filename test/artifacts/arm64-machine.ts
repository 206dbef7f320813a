/**
 * A directory that is the root of an arm64 machine. It contains arm64 libraries, and QEMU and a
 * shell for this machine. QEMU runs the arm64 programs.
 */

import { chmod, cp, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cachedBuild, ServerUnavailable } from '../servers/cached-build.ts';
import { type DebianFetch, PATIENT, unpackDebianPackages } from '../servers/debian-packages.ts';

export const ARM64_TITLE = 'QEMU with libraries for arm64';
/**
 * The directory in the cache. The distribution decides the versions: Debian 12 has QEMU 7.2 and
 * glibc 2.36.
 */
export const ARM64_HOME = 'arm64-machine-of-distribution';
export const ARM64_FILE = 'bin/qemu-aarch64-static';

const OWN = ['qemu-user-static', 'busybox-static'];
/** Libraries that Node's programs are linked with. */
const FOREIGN = ['libc6', 'libgcc-s1', 'libstdc++6'];
const LOADER = 'lib/ld-linux-aarch64.so.1';
/** The commands that the archive's launcher calls. */
const COMMANDS = ['sh', 'readlink', 'uname'];

/**
 * Path of QEMU in the root of the machine. Installs the machine if it is missing, as `cachedBuild`
 * does. Throws `ServerUnavailable` if that is impossible.
 */
export function arm64Machine(fetch: DebianFetch = PATIENT): Promise<string> {
  const build = (directory: string) => buildMachine(directory, fetch);
  return cachedBuild({ title: ARM64_TITLE, home: ARM64_HOME, file: ARM64_FILE, build });
}

async function buildMachine(directory: string, fetch: DebianFetch): Promise<void> {
  const names = [...OWN, ...FOREIGN.map((name) => `${name}:arm64`)];
  const qemu = join(directory, 'usr', ARM64_FILE);
  // The loader is a program too.
  const check = [qemu, join(directory, LOADER), '--version'];
  try {
    await unpackDebianPackages({ title: ARM64_TITLE, names, foreign: 'arm64', directory, check }, fetch);
  } catch (error) {
    if (!(error instanceof ServerUnavailable)) throw error;
    throw new ServerUnavailable(
      `this distribution does not give ${names.join(', ')}, as Debian 12 does (${error.message})`,
    );
  }
  await rename(qemu, join(directory, ARM64_FILE));
  // QEMU comes for 30 machines, and glibc with every encoding.
  for (const unneeded of ['usr/bin', 'usr/share', 'usr/lib/aarch64-linux-gnu/gconv', 'etc'])
    await rm(join(directory, unneeded), { recursive: true, force: true });
  for (const name of COMMANDS) await symlink('busybox', join(directory, 'bin', name));
}

/** Copies such a machine to `root`. */
export async function copyArm64Machine(root: string): Promise<void> {
  const from = dirname(dirname(await arm64Machine()));
  await mkdir(root);
  for (const name of ['bin', 'lib', 'usr'])
    await cp(join(from, name), join(root, name), { recursive: true, verbatimSymlinks: true });
}

/**
 * Makes an arm64 program in `root` start like a native one, because the kernel does not start QEMU
 * by itself.
 */
export async function runByQemu(root: string, program: string): Promise<void> {
  const moved = `${program}.arm64`;
  await rename(join(root, program), join(root, moved));
  await writeFile(join(root, program), `#!/bin/sh\nexec /${ARM64_FILE} /${moved} "$@"\n`);
  await chmod(join(root, program), 0o755);
}
