/**
 * A directory that is the root of a machine for arm64: its libraries, a shell, and QEMU, which runs its programs here. QEMU and the shell are
 * for this machine.
 */

import { chmod, cp, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cachedBuild, ServerUnavailable } from '../servers/cached-build.ts';
import { type DebianFetch, PATIENT, unpackDebianPackages } from '../servers/debian-packages.ts';

export const ARM64_TITLE = 'QEMU with libraries for arm64';
/** Of the directory in the cache. The version is the distribution's: QEMU 7.2 and glibc 2.36 in Debian 12. */
export const ARM64_HOME = 'arm64-machine-of-distribution';
export const ARM64_FILE = 'bin/qemu-aarch64-static';

const OWN = ['qemu-user-static', 'busybox-static'];
/** What programs of Node are linked with. */
const FOREIGN = ['libc6', 'libgcc-s1', 'libstdc++6'];
const LOADER = 'lib/ld-linux-aarch64.so.1';
/** What the launcher of the archive calls. */
const COMMANDS = ['sh', 'readlink', 'uname'];

/** Path of QEMU, in the root of the machine; gets it if it is not there, as `cachedBuild` does. `ServerUnavailable` if it cannot be had. */
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
  // QEMU comes for 30 machines, glibc with every encoding.
  for (const unneeded of ['usr/bin', 'usr/share', 'usr/lib/aarch64-linux-gnu/gconv', 'etc'])
    await rm(join(directory, unneeded), { recursive: true, force: true });
  for (const name of COMMANDS) await symlink('busybox', join(directory, 'bin', name));
}

/** Makes `root` such a machine. */
export async function copyArm64Machine(root: string): Promise<void> {
  const from = dirname(dirname(await arm64Machine()));
  await mkdir(root);
  for (const name of ['bin', 'lib', 'usr'])
    await cp(join(from, name), join(root, name), { recursive: true, verbatimSymlinks: true });
}

/** Lets a program for arm64 in `root` be started like one of this machine: the kernel does not know that QEMU is there. */
export async function runByQemu(root: string, program: string): Promise<void> {
  const moved = `${program}.arm64`;
  await rename(join(root, program), join(root, moved));
  await writeFile(join(root, program), `#!/bin/sh\nexec /${ARM64_FILE} /${moved} "$@"\n`);
  await chmod(join(root, program), 0o755);
}
