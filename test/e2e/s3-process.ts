/** Runs the command line against S3, and keeps an eye on secrets. */

import { expect } from 'vitest';
import { type Ended, holdfast, type RunOptions, underMounts } from './holdfast-process.ts';

/** What must be in no output: filled as secrets are made. */
const SECRETS = new Set<string>();
const OUTPUTS: string[] = [];
const INTERRUPTED = 130;

/** A machine of a cloud would find credentials of its own. */
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

/** As `cli`, for a script in a directory, under file systems that only it sees. */
export async function cliUnderMounts(directory: string, script: string, env: Env): Promise<Ended> {
  keepSecretsOf(env);
  return kept(await underMounts(directory, script, { ...NO_METADATA, ...env }));
}

function kept(ended: Ended): Ended {
  OUTPUTS.push(ended.stdout, ended.stderr);
  return ended;
}

/** One more thing that must be in no output. */
export function keepSecret(secret: string): void {
  SECRETS.add(secret);
}

/** For the end of a file of tests: nothing that any of its processes has said holds a secret. */
export function expectNoSecretTold(): void {
  expect(SECRETS.size).toBeGreaterThan(0);
  expect(OUTPUTS.length).toBeGreaterThan(0);
  const all = OUTPUTS.join('\n');
  for (const secret of SECRETS) expect(all.includes(secret), 'a secret is in the output').toBe(false);
}

/** `words`: in the message, in this order. */
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

/** What the command says before it tries again, `words` in this order; then it is stopped, and has not waited for the time to be over. */
export async function expectRepeat(
  args: readonly string[],
  env: Env,
  { words, program }: { words: readonly string[]; program: readonly string[] },
): Promise<void> {
  let isStopped = false;
  const ended = await cli(args, env, {
    program,
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

/** For a process: code that runs before its own. */
const preload = (code: string): Env => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}`,
});

const HASTE = 50;
/** All waits of the process are that much shorter, and the time that it measures passes that much faster. */
export const HASTY = preload(
  `const wait = setTimeout; globalThis.setTimeout = (then, ms, ...rest) => wait(then, ms / ${HASTE}, ...rest);
   const now = performance.now.bind(performance); performance.now = () => now() * ${HASTE};`,
);

/** The clock of the process is 20 minutes slow. */
export const SLOW_CLOCK = preload(
  `const Real = Date; const now = () => Real.now() - 1_200_000;
   globalThis.Date = class extends Real { constructor(...given) { super(...(given.length ? given : [now()])); } static now() { return now(); } };`,
);

/** The URI with other settings. */
export const withQuery = (uri: string, changes: Record<string, string>): string => {
  const [path, search] = uri.split('?');
  return `${path}?${new URLSearchParams({ ...Object.fromEntries(new URLSearchParams(search)), ...changes })}`;
};

export const FILES = { 'a b+ü%.bin': Buffer.alloc(300_000, 7), 'sub/plain.txt': 'hello' };
