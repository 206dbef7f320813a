/** The results of `npm run pack`, and directories outside the clone to use them in. */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
// @boundaries-ignore the bootstrap decides how packages and Node are fetched
import { fetchPackage } from '../../scripts/fetch-package.mjs';
// @boundaries-ignore the bootstrap decides which npm and Node there are
import { nodePackage, npmCommand, TRIED_NODES } from '../../scripts/toolchain.mjs';
import { type Ended, run } from '../e2e/holdfast-process.ts';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const ARTIFACTS = join(ROOT, 'artifacts');
/** Installing takes seconds on an idle machine. */
export const INSTALL_TIMEOUT_MS = 300_000;
/** Versions of Node that run the packages. */
export const NODES = [22, 24, 26] as const;
/** Versions of Node on which the packages print one sentence and exit. */
export const OLD_NODES = [18, 20] as const;

export interface PackageJson {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
  readonly repository?: { readonly url: string };
  readonly exports: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

export function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(path, 'utf8')) as T;
}

/** The version of all packages. */
export const VERSION = readJson<PackageJson>(join(ROOT, 'packages/holdfast/package.json')).version;

/** Names of the packages that are published, in the order of their folders. */
export const PACKAGES: readonly string[] = readdirSync(join(ROOT, 'packages'))
  .filter(
    (folder) =>
      !['agent', 'cli', 'ui'].includes(folder) && existsSync(join(ROOT, 'packages', folder, 'package.json')),
  )
  .map((folder) => readJson<PackageJson>(join(ROOT, 'packages', folder, 'package.json')).name);

/** Path of an artifact by its name. Throws if `npm run pack` has not made it. */
export function artifact(name: string): string {
  const path = join(ARTIFACTS, name);
  if (!existsSync(path)) throw new Error(`artifacts/${name} is missing; run: npm run pack`);
  return path;
}

export function tarball(name: string): string {
  return artifact(`${name.replace('@', '').replace('/', '-')}-${VERSION}.tgz`);
}

/** The tarballs of a package and of its dependencies in this repository. */
export function tarballsFor(name: string): Record<string, string> {
  const found: Record<string, string> = {};
  const visit = (each: string) => {
    if (each in found) return;
    found[each] = tarball(each);
    const folder = each.replace('@holdfast/', '');
    const { dependencies = {} } = readJson<PackageJson>(join(ROOT, 'packages', folder, 'package.json'));
    for (const needed of Object.keys(dependencies)) if (needed.startsWith('@holdfast/')) visit(needed);
  };
  visit(name);
  return found;
}

/** Path of the Node of this major version. Fetches it into the cache if it is missing. */
export function nodeProgram(major: keyof typeof TRIED_NODES): string {
  const { name } = nodePackage({ platform: 'linux', arch: process.arch, musl: false }) ?? {};
  if (name === undefined) throw new Error(`there is no Node for ${process.arch} to try the packages with`);
  const say = (line: string) => process.stderr.write(`holdfast: ${line}\n`);
  return join(fetchPackage({ name, version: TRIED_NODES[major] }, { say }), 'bin', 'node');
}

export interface Scratch {
  readonly directory: string;
  path(...names: string[]): string;
  remove(): Promise<void>;
}

/** A directory outside the clone that every user may read. */
export async function scratch(): Promise<Scratch> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-artifacts-'));
  await chmod(directory, 0o755);
  return {
    directory,
    path: (...names) => join(directory, ...names),
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

/**
 * Variables of this process for an installer. The user's settings name the registry and the cache.
 */
function installEnv(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name]) =>
    /^(npm_config_|https?_proxy|no_proxy|node_extra_ca_certs|xdg_|home$)/i.test(name),
  );
  const own = /^npm_config_(local_prefix|global_prefix|prefix|user_agent|noproxy)$/i;
  return Object.fromEntries(kept.filter(([name]) => !own.test(name))) as Record<string, string>;
}

/** Runs an installer. Throws an error with its output if it fails. */
export async function installer(words: readonly string[], cwd: string): Promise<void> {
  const ended = await run(words, { cwd, env: installEnv() });
  if (ended.code !== 0) throw new Error(`${words.join(' ')}: ${ended.stdout}${ended.stderr}`);
}

export function npm(...args: readonly string[]): string[] {
  const { command, args: first } = npmCommand({ env: process.env, execPath: process.execPath });
  return [command, ...first, ...args, '--no-audit', '--no-fund', '--loglevel=error'];
}

/** The command within an archive. */
export const COMMAND = 'lib/holdfast/dist/command.mjs';

/** The engine's native code, if packing could compile it: a file for each machine. */
export const ENGINE_NATIVES = nativesIn('packages/core/native');

/** The same with that of the command, as the packed command has it beside its pieces. */
export const COMMAND_NATIVES = [...ENGINE_NATIVES, ...nativesIn('packages/cli/native')].sort();

function nativesIn(directory: string): readonly string[] {
  return readdirSync(join(ROOT, directory))
    .filter((name) => name.endsWith('.node'))
    .sort();
}

/** What `holdfast version` calls the code that computes CRC32C. */
export const CRC32C_BY = ENGINE_NATIVES.length > 0 ? 'holdfast' : 'node-rs';

/**
 * A program for Node. It prints `NATIVE_SAID` if native code of packages computes both checksums
 * for this `command.mjs`.
 */
export function nativeChecksums(command: string): string {
  return `
    const { createRequire } = require('node:module');
    const from = createRequire(${JSON.stringify(command)});
    console.log(from('@node-rs/crc32').crc32c('123456789').toString(16), typeof from('@napi-rs/blake-hash').blake3);`;
}

export const NATIVE_SAID: Ended = { code: 0, stdout: 'e3069283 function\n', stderr: '' };

export type { Ended };
