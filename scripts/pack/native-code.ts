/**
 * Compiles native code, for every machine that we pack for. The compiler is Zig's C
 * compiler, in the wheel that its authors publish: it compiles for any machine on any other.
 */

import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { requirePython } from '../../test/python/python-program.ts';
import { cachedBuild, runBuildStep, ServerUnavailable, say } from '../../test/servers/cached-build.ts';
import { testConfig } from '../../test/servers/config.ts';
import { assertElf, type ElfMachine } from './elf.ts';

export const NATIVE_TITLE = 'the native code';

/** The package that each source is of. */
const SOURCES = { crc32c: 'core', exit: 'cli' } as const;
type Source = keyof typeof SOURCES;

const COMPILER = 'ziglang==0.17.1';
/** SHA-256 of the wheels for the machines that compile. */
const WHEELS: Readonly<Record<string, string>> = {
  'linux-x64': 'ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54',
  'linux-arm64': 'b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e',
};
/** Unpacks the part of the wheel that compiling needs. The other half is C libraries. */
const UNPACK = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    needed = ("ziglang/zig", "ziglang/lib/include/", "ziglang/lib/std/")
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith(needed)])
`;

/** Without a C library the code loads beside glibc and beside musl. Pages may have 64 KiB. */
const FLAGS = [
  ...['-O2', '-std=c23', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC', '-s'],
  ...['-ffreestanding', '-nostdlib', '-fvisibility=hidden', '-fno-sanitize=all', '-fno-stack-protector'],
  ...['-Wl,--allow-shlib-undefined', '-Wl,-z,max-page-size=65536'],
];
const TARGETS: Readonly<Record<ElfMachine, string>> = {
  x64: 'x86_64-linux-none',
  arm64: 'aarch64-linux-none',
};

function sourceDirectory(root: string, source: Source): string {
  return join(root, 'packages', SOURCES[source], 'native');
}

function sourcePath(root: string, source: Source): string {
  return join(sourceDirectory(root, source), `${source}.c`);
}

/** The name under which the program looks for the code. */
function fileName(source: Source, arch: ElfMachine): string {
  return `${source}-linux-${arch}.node`;
}

const ALL = (Object.keys(SOURCES) as Source[]).flatMap((source) =>
  (Object.keys(TARGETS) as ElfMachine[]).map((arch) => ({ source, arch, name: fileName(source, arch) })),
);

/**
 * Puts the compiled code beside its source, where the program finds it. Compiles it if the cache
 * does not have it: that takes less than half a minute and downloads 100 MB. Throws
 * `ServerUnavailable` if that is impossible here.
 */
export async function prepareNativeCode(root: string): Promise<void> {
  const compiled = await compiledCode(root).catch((error: unknown) => {
    // Code of an older source must not be packed as if it were of this one.
    for (const { source, name } of ALL) rmSync(join(sourceDirectory(root, source), name), { force: true });
    throw error;
  });
  for (const { source, name } of ALL) {
    const target = join(sourceDirectory(root, source), name);
    const bytes = readFileSync(join(compiled, name));
    if (existsSync(target) && readFileSync(target).equals(bytes)) continue;
    // A process that runs the former code keeps it.
    writeFileSync(`${target}.${process.pid}`, bytes);
    renameSync(`${target}.${process.pid}`, target);
  }
}

/**
 * As `prepareNativeCode`. If that is impossible, it says so, and the program does without. Throws
 * `ServerUnavailable` only if `HOLDFAST_REQUIRE` names `native`.
 */
export async function tryNativeCode(root: string): Promise<void> {
  try {
    await prepareNativeCode(root);
  } catch (error) {
    if (!(error instanceof ServerUnavailable)) throw error;
    if (testConfig(process.env).requiredSuites.has('native'))
      throw new ServerUnavailable(`HOLDFAST_REQUIRE names native, but ${error.message}`);
    say(`${NATIVE_TITLE} cannot be had, so saves will be SLOWER: ${error.message}`);
  }
}

/** A directory in the cache with the code for each machine. Otherwise as `prepareNativeCode`. */
export async function compiledCode(root: string): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify([COMPILER, FLAGS, TARGETS]));
  for (const source of Object.keys(SOURCES) as Source[]) hash.update(readFileSync(sourcePath(root, source)));
  const home = `native-${hash.digest('hex').slice(0, 16)}`;
  const wanted = { title: NATIVE_TITLE, home, file: fileName('crc32c', 'x64') };
  const build = (directory: string) => compile(root, directory);
  return dirname(await cachedBuild({ ...wanted, build }));
}

/** Leaves only the compiled code in the directory: 20 kB, where the compiler takes 200 MB. */
async function compile(root: string, directory: string): Promise<void> {
  const sha256 = wheelOfThisMachine();
  await requirePython();
  say(`compiling ${NATIVE_TITLE}, less than a minute, once`);
  const tools = join(directory, 'tools');
  mkdirSync(tools);
  const env = { ...process.env, ZIG_GLOBAL_CACHE_DIR: join(tools, 'cache') } as Record<string, string>;
  const step = (...words: string[]) => runBuildStep({ title: NATIVE_TITLE, words, env, directory });
  const zig = await unpackCompiler({ sha256, tools, step });
  for (const { source, arch, name } of ALL) {
    const file = join(directory, name);
    await step(zig, 'cc', '-target', TARGETS[arch], ...FLAGS, '-o', file, sourcePath(root, source));
    assertElf(file, arch);
  }
  rmSync(tools, { recursive: true });
}

function wheelOfThisMachine(): string {
  const machine = `${process.platform}-${process.arch}`;
  const sha256 = WHEELS[machine];
  if (sha256 !== undefined) return sha256;
  const known = Object.keys(WHEELS).join(' and ');
  throw new ServerUnavailable(`it is compiled on ${known} only, and this is ${machine}`);
}

/** Returns the path of the program. */
async function unpackCompiler({
  sha256,
  tools,
  step,
}: {
  sha256: string;
  tools: string;
  step: (...words: string[]) => Promise<void>;
}): Promise<string> {
  // A pip that is there wherever Python has its module venv.
  const environment = join(tools, 'python');
  await step('python3', '-m', 'venv', environment);
  const python = join(environment, 'bin', 'python');
  const requirements = join(tools, 'requirements.txt');
  writeFileSync(requirements, `${COMPILER} --hash=sha256:${sha256}\n`);
  const options = ['--no-cache-dir', '--disable-pip-version-check', '--no-input', '--no-deps'];
  const exact = ['--only-binary', ':all:', '--require-hashes', '--requirement', requirements];
  await step(python, '-m', 'pip', 'download', ...options, ...exact, '--dest', tools);
  const wheel = readdirSync(tools).find((name) => name.endsWith('.whl'));
  await step(python, '-c', UNPACK, join(tools, wheel as string), tools);
  const zig = join(tools, 'ziglang', 'zig');
  chmodSync(zig, 0o755);
  return zig;
}
