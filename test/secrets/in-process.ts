/** Runs the command line in this process, and collects all its output. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCli } from '@holdfast/cli/internal/run-cli';
import { CheckpointError, systemClock } from '@holdfast/core/contract';
import { onTestFinished, vi } from 'vitest';

export type Env = Readonly<Record<string, string>>;

/** Nothing from this machine: neither its files nor its metadata servers. */
const NOTHING: Env = {
  HOME: '/nowhere',
  AWS_EC2_METADATA_DISABLED: 'true',
  AZURE_TOKEN_CREDENTIALS: 'EnvironmentCredential',
  CLOUDSDK_CONFIG: '/nowhere',
  METADATA_SERVER_DETECTION: 'none',
};

const HASTE = 50;

/**
 * Makes all waits of this test much shorter, and makes measured time pass faster by the same
 * factor.
 */
export function hasten(): void {
  const wait = globalThis.setTimeout;
  const now = performance.now.bind(performance);
  const faster = vi.spyOn(performance, 'now').mockImplementation(() => now() * HASTE);
  onTestFinished(() => faster.mockRestore());
  vi.stubGlobal('setTimeout', (then: () => void, delayMs = 0, ...rest: []) =>
    wait(then, delayMs / HASTE, ...rest),
  );
  onTestFinished(() => void vi.unstubAllGlobals());
}

/** Makes a file for this test with this content. */
export async function fileOf(content: string): Promise<string> {
  const directory = await newDirectory();
  const path = join(directory, 'file');
  await writeFile(path, content);
  return path;
}

export async function newDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-secrets-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/**
 * Runs `work` with these environment variables only: libraries read the environment of the process.
 */
export async function inEnvironment<T>(env: Env, work: () => Promise<T>): Promise<T> {
  const before = { ...process.env };
  for (const name of Object.keys(process.env)) {
    if (
      /^(AWS|AZURE|GOOGLE|GCE|GCLOUD|CLOUDSDK|HOLDFAST|IDENTITY|STORAGE|https?_proxy|no_proxy|all_proxy)/i.test(
        name,
      )
    )
      delete process.env[name];
  }
  Object.assign(process.env, NOTHING, env);
  try {
    return await work();
  } finally {
    for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
    Object.assign(process.env, before);
  }
}

export interface Shown {
  readonly code: number;
  /** Standard output and error, including what libraries wrote directly. */
  readonly text: string;
}

/** One call of the command line. */
export function holdfast(argv: readonly string[], env: Env): Promise<Shown> {
  return inEnvironment(env, async () => {
    let text = '';
    const write = (more: unknown): boolean => {
      text += String(more);
      return true;
    };
    const spies = [
      vi.spyOn(process.stdout, 'write').mockImplementation(write),
      vi.spyOn(process.stderr, 'write').mockImplementation(write),
      ...(['log', 'info', 'warn', 'error', 'debug'] as const).map((name) =>
        vi.spyOn(console, name).mockImplementation(write),
      ),
    ];
    try {
      const code = await runCli(argv, {
        env: process.env,
        stdout: { write },
        stderr: { write },
        clock: systemClock,
        programVersion: '0.0.0',
        ask: null,
        listenForInterrupt: () => ({
          signal: new AbortController().signal,
          outlastSigterm: () => undefined,
          deliverEarly: () => undefined,
          dispose: () => undefined,
        }),
      });
      return { code, text };
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
  });
}

/**
 * Output for people and for programs. `--verbose` prints a superset of the output without options.
 */
export const LOUD_MODES: readonly (readonly string[])[] = [
  ['--verbose'],
  ['--json', '--log', 'json', '--verbose'],
];

/** Every form in which an error, or another value of Holdfast, may appear in a log. */
export function loggedForms(value: unknown, inspect: (value: unknown) => string): string {
  const forms = [inspect(value), String(value), safeJson(value)];
  for (let at: unknown = value, depth = 0; at instanceof Error && depth < 20; at = at.cause, depth += 1)
    forms.push(at.message, at.stack ?? '', safeJson(at), safeJson(Object.getOwnPropertyDescriptors(at)));
  if (value instanceof CheckpointError) forms.push(safeJson(value.context), value.advice);
  return forms.join('\n');
}

function safeJson(value: unknown): string {
  const seen = new Set<unknown>();
  return (
    JSON.stringify(value, (_, item: unknown) => {
      if (typeof item === 'bigint') return String(item);
      if (typeof item !== 'object' || item === null) return item;
      if (seen.has(item)) return '(again)';
      seen.add(item);
      return item;
    }) ?? ''
  );
}
