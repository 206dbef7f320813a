/** Runs the command line against S3 and checks its output for secrets. */

import { expect } from 'vitest';
import { type Ended, holdfast, type RunOptions, underMounts } from './holdfast-process.ts';

/** Values that no output may contain. Tests add secrets when they create them. */
const SECRETS = new Set<string>();
const OUTPUTS: string[] = [];
const INTERRUPTED = 130;

/** Prevents a cloud machine from finding its own credentials. */
const NO_METADATA = { AWS_EC2_METADATA_DISABLED: 'true' };

export type Env = Readonly<Record<string, string>>;

function keepSecretsOf(env: Env): void {
  for (const name of ['AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN', 'HOLDFAST_S3_CUSTOMER_KEY']) {
    const value = env[name];
    if (value !== undefined) SECRETS.add(value);
  }
}

export async function cli(args: readonly string[], env: Env, options: RunOptions = {}): Promise<Ended> {
  keepSecretsOf(env);
  return kept(await holdfast(args, { ...options, env: { ...NO_METADATA, ...env } }));
}

/** Like `cli`, for a script in a directory with mounts that only it sees. */
export async function cliUnderMounts(directory: string, script: string, env: Env): Promise<Ended> {
  keepSecretsOf(env);
  return kept(await underMounts(directory, script, { ...NO_METADATA, ...env }));
}

function kept(ended: Ended): Ended {
  OUTPUTS.push(ended.stdout, ended.stderr);
  return ended;
}

/** Adds a value that no output may contain. */
export function keepSecret(secret: string): void {
  SECRETS.add(secret);
}

/** Call this at the end of a test file: no output of its processes may contain a secret. */
export function expectNoSecretTold(): void {
  expect(SECRETS.size).toBeGreaterThan(0);
  expect(OUTPUTS.length).toBeGreaterThan(0);
  const all = OUTPUTS.join('\n');
  for (const secret of SECRETS) expect(all.includes(secret), 'a secret is in the output').toBe(false);
}

/** The message must contain `words` in this order. */
export function expectError(ended: Ended, code: string, exit: number, ...words: string[]): void {
  expect(ended.stderr).toMatch(new RegExp(`\\(${code}, exit ${exit}\\)\n$`));
  expectWords(ended.stderr, words);
  expect(ended.code).toBe(exit);
}

function expectWords(text: string, words: readonly string[]): void {
  let from = 0;
  for (const word of words) {
    expect(text.slice(from)).toContain(word);
    from = text.indexOf(word, from) + word.length;
  }
}

/**
 * Expects a message before a retry, with `words` in this order. Then it stops the command, which
 * must not have waited for the full time.
 */
export async function expectRepeat(
  args: readonly string[],
  env: Env,
  words: readonly string[],
): Promise<void> {
  let isStopped = false;
  const ended = await cli(args, env, {
    onStderr: (text, kill) => {
      if (isStopped || !text.includes('\n')) return;
      isStopped = true; // a second signal would end it at once
      kill('SIGINT');
    },
  });
  const [note = ''] = ended.stderr.split('\n');
  expect(note).toMatch(/^trying again: .*: Unavailable: /);
  expectWords(note, words);
  expect(ended.code).toBe(INTERRUPTED);
}

/** Variables that run this code in a process before its own code. */
const preload = (code: string): Env => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}`,
});

const HASTE = 50;
/** Makes all waits of the process shorter and its measured time faster by the factor `HASTE`. */
export const HASTY = preload(
  `const wait = setTimeout; globalThis.setTimeout = (then, ms, ...rest) => wait(then, ms / ${HASTE}, ...rest);
   const now = performance.now.bind(performance); performance.now = () => now() * ${HASTE};`,
);

/** Makes the clock of the process 20 minutes slow. */
export const SLOW_CLOCK = preload(
  `const Real = Date; const now = () => Real.now() - 1_200_000;
   globalThis.Date = class extends Real { constructor(...given) { super(...(given.length ? given : [now()])); } static now() { return now(); } };`,
);

/** The URI with changed settings. */
export const withQuery = (uri: string, changes: Record<string, string>): string => {
  const [path, search] = uri.split('?');
  return `${path}?${new URLSearchParams({ ...Object.fromEntries(new URLSearchParams(search)), ...changes })}`;
};

export const FILES = { 'a b+ü%.bin': Buffer.alloc(300_000, 7), 'sub/plain.txt': 'hello' };
