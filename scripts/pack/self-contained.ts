/**
 * Packs the command with Node and native code for one kind of machine. A user unpacks and runs it.
 */

import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fetchPackage } from '../fetch-package.mjs';
import { nodePackage } from '../toolchain.mjs';
import { assertElf, type ElfMachine, glibcMin } from './elf.ts';

export interface Machine {
  readonly name: string;
  readonly arch: ElfMachine;
  /** The dynamic loader of that machine. */
  readonly loader: string;
}

/** Linux with glibc, because Node's own builds need glibc. */
export const MACHINES: readonly Machine[] = [
  { name: 'linux-x64', arch: 'x64', loader: '/lib64/ld-linux-x86-64.so.2' },
  { name: 'linux-arm64', arch: 'arm64', loader: '/lib/ld-linux-aarch64.so.1' },
];

/** Packages of native code. Each looks for its machine's package beside itself. */
const NATIVE = ['@node-rs/crc32', '@napi-rs/blake-hash'] as const;

const say = (line: string) => process.stderr.write(`holdfast: ${line}\n`);

/**
 * Writes the content of a machine's archive to `target`. It copies from `whole`, the prepared
 * package `holdfast`.
 */
export function stageSelfContained(root: string, whole: string, machine: Machine, target: string): void {
  const library = join(target, 'lib', 'holdfast');
  cpSync(whole, library, { recursive: true });
  const node = join(target, 'lib', 'node');
  cpSync(join(nodeHome(machine), 'bin', 'node'), node);
  chmodSync(node, 0o755);
  cpSync(join(nodeHome(machine), 'LICENSE'), join(target, 'NODE-LICENSE'));
  cpSync(join(root, 'LICENSE'), join(target, 'LICENSE'));
  assertElf(node, machine.arch);
  const programs = [node, ...addNatives(root, machine, library)];
  mkdirSync(join(target, 'bin'));
  writeFileSync(join(target, 'bin', 'holdfast'), launcher(root, machine, glibcMin(programs)), {
    mode: 0o755,
  });
}

function nodeHome({ arch }: Machine): string {
  const wanted = nodePackage({ platform: 'linux', arch, musl: false });
  if (wanted === undefined) throw new Error(`there is no Node for linux ${arch}`);
  return fetchPackage(wanted, { say, forOtherMachine: true });
}

/**
 * Puts the native code for a machine beside the command in `library`. Returns the paths of the
 * native programs.
 */
export function addNatives(root: string, machine: Machine, library: string): string[] {
  const programs = NATIVE.map((name) => addNative(root, name, machine, library));
  for (const program of programs) assertElf(program, machine.arch);
  return programs;
}

/** Path of the native program. */
function addNative(root: string, name: string, machine: Machine, library: string): string {
  const home = join(root, 'packages', 'core', 'node_modules', name);
  const { version } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as { version: string };
  const modules = join(library, 'node_modules');
  const native = `${name}-${machine.name}-gnu`;
  const fetched = fetchPackage({ name: native, version }, { say, forOtherMachine: true });
  cpSync(home, join(modules, name), {
    recursive: true,
    dereference: true,
    filter: (path) => !path.includes(`${name}/node_modules`),
  });
  cpSync(fetched, join(modules, native), { recursive: true });
  const file = readdirSync(fetched).find((each) => each.endsWith('.node'));
  if (file === undefined) throw new Error(`${native} holds no native program`);
  return join(modules, native, file);
}

function launcher(root: string, { name, loader }: Machine, glibc: string): string {
  const text = readFileSync(join(root, 'packages', 'holdfast', 'launcher.sh'), 'utf8');
  const values: Record<string, string> = { MACHINE: name, LOADER: loader, GLIBC: glibc };
  return text.replace(/@([A-Z]+)@/g, (_, key: string) => values[key] as string);
}
