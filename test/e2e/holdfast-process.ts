/** Runs the packed command line as a process. */

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { onTestFinished, TestRunner } from 'vitest';
import { PACKED } from './packed-command.ts';

// Without this cache the tests would spend much of their time compiling for every process.
export const COMPILE_CACHE = fileURLToPath(
  new URL('../../node_modules/.cache/holdfast-e2e', import.meta.url),
);

const MAIN = fileURLToPath(new URL('../../packages/cli/src/main.ts', import.meta.url));

/** The same command from its sources, for tests and measurements that ask which of them load. */
export const FROM_SOURCES: readonly string[] = [process.execPath, '--conditions=holdfast-source', MAIN];

/** The program and its arguments before the command. A global setup packs it before the tests. */
export const HOLDFAST: readonly string[] = PACKED;

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  /** The program and its arguments before the command. Default: the packed command. */
  program?: readonly string[];
  cwd?: string;
  env?: Record<string, string>;
  /** Receives all of standard error so far, each time more arrives. */
  onStderr?: (text: string, kill: (signal: NodeJS.Signals) => void) => void;
  /**
   * Receives a function that sends a signal, right after the start. For tests that choose the
   * moment by other means.
   */
  onSpawn?: (kill: (signal: NodeJS.Signals) => void) => void;
}

/** The cells of each line. They are at least two spaces apart, in a table as in a sentence. */
export function cellsOf(text: string): string[][] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => line.trim().split(/ {2,}/));
}

/** A clean environment: no variables of a launcher and no settings. */
export function cleanEnv(extra: Record<string, string> = {}): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', HOME: tmpdir(), NODE_COMPILE_CACHE: COMPILE_CACHE, ...extra };
}

/** `holdfast` with these arguments. */
export function holdfast(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return run([...(options.program ?? HOLDFAST), ...args], options);
}

/**
 * The same command line in a pseudo terminal that answers with `input`. Both streams arrive as one
 * text.
 */
export function atTerminal(args: readonly string[], input: string): Promise<Ended> {
  const quoted = [...HOLDFAST, ...args].map((word) => `'${word}'`).join(' ');
  const script = `script --quiet --return --command "$1" /dev/null <<< "$2"`;
  return run(['bash', '-c', script, 'bash', quoted, input], { env: { TERM: 'dumb', SHELL: '/bin/sh' } });
}

/** Any command line. */
export function run(words: readonly string[], options: RunOptions = {}): Promise<Ended> {
  const [program, ...args] = words;
  const child = spawn(program as string, args, {
    cwd: options.cwd,
    env: cleanEnv(options.env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  options.onSpawn?.((signal) => child.kill(signal));
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    options.onStderr?.(stderr, (signal) => child.kill(signal));
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
}

/**
 * Runs a shell script in a directory, with mounts that only the script sees. `holdfast` is a
 * command in it.
 */
export function underMounts(directory: string, script: string, env?: Record<string, string>): Promise<Ended> {
  const user = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
  const program = HOLDFAST.map((word) => `'${word}'`).join(' ');
  const words = ['bash', '-c', `set -e; holdfast() { ${program} "$@"; }; ${script}`];
  return run(['unshare', ...user, '--mount', ...words], { cwd: directory, ...(env && { env }) });
}

export interface Place {
  readonly directory: string;
  /** The URI of a run that does not exist yet. */
  readonly uri: string;
  /** The directory of that run. */
  readonly runDirectory: string;
  path(name: string): string;
  remove(): Promise<void>;
}

/**
 * A new directory that is removed when the test ends. A directory made outside a test must be
 * removed by the caller.
 */
export async function newPlace(): Promise<Place> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-cli-'));
  const remove = () => rm(directory, { recursive: true, force: true });
  if (TestRunner.getCurrentTest() !== undefined) onTestFinished(remove);
  const path = (name: string) => join(directory, name);
  return { directory, runDirectory: path('run'), uri: pathToFileURL(path('run')).href, path, remove };
}

/**
 * Every file below a directory with the hash of its bytes. Empty if the directory does not exist.
 */
export async function contentOf(directory: string): Promise<Record<string, string>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const hashed = files.sort().map(async (file) => {
    const hash = createHash('sha256')
      .update(await readFile(file))
      .digest('hex');
    return [file.slice(directory.length + 1), hash] as const;
  });
  return Object.fromEntries(await Promise.all(hashed));
}

/** Writes files of a few bytes into a new directory of the place. */
export async function writeFiles(
  place: Place,
  name: string,
  files: Record<string, string | Uint8Array>,
): Promise<string> {
  const directory = place.path(name);
  await mkdir(directory, { recursive: true });
  for (const [file, bytes] of Object.entries(files)) {
    await mkdir(dirname(join(directory, file)), { recursive: true });
    await writeFile(join(directory, file), bytes);
  }
  return directory;
}

/** The files of `savedPlace`: 301,005 bytes. */
export const FILES = {
  'model.bin': Buffer.alloc(300_000, 7),
  'layers/0.bin': Buffer.alloc(1000, 1),
  'notes.txt': 'hello',
};

/** A place with a run that holds these versions of FILES. Each version has its own bytes. */
export async function savedPlace(...versions: number[]): Promise<Place> {
  const place = await newPlace();
  const source = await writeFiles(place, 'ckpt', FILES);
  for (const version of versions) {
    const saved = await holdfast([
      'save',
      source,
      place.uri,
      '--version',
      String(version),
      '--metric',
      `loss=${3 - version / 10}`,
      ...['--dedupe', 'off', '--on-stale', 'off'],
    ]);
    if (saved.code !== 0) throw new Error(saved.stderr);
  }
  return place;
}

/** The token that `OutcomeUnknown` would contain for a commit of this version. */
export async function recoverToken(place: Place, epoch: number, version: number): Promise<string> {
  const { runId } = JSON.parse(await readFile(`${place.runDirectory}/run.json`, 'utf8'));
  return tokenOf(runId, epoch, version);
}

/** The same for a run with this id. */
export function tokenOf(runId: string, epoch: number, version: number): string {
  return `hf1-${Buffer.from(JSON.stringify(['commit', runId, 1, epoch, String(version), '', ''])).toString('base64url')}`;
}
