/** The command line in this process, with all that it shows, whichever way it takes. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCli } from '@holdfast/cli/internal/run-cli';
import { CheckpointError, systemClock } from '@holdfast/core/contract';
import { onTestFinished, vi } from 'vitest';

export type Env = Readonly<Record<string, string>>;

/** Nothing of this machine: neither its files nor the servers that know its identity. */
const NOTHING: Env = {
  HOME: '/nowhere',
  AWS_EC2_METADATA_DISABLED: 'true',
  AZURE_TOKEN_CREDENTIALS: 'EnvironmentCredential',
  CLOUDSDK_CONFIG: '/nowhere',
  METADATA_SERVER_DETECTION: 'none',
};

const HASTE = 50;

/** All waits of this test are that much shorter, and the time that it measures passes that much faster. */
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

/** A file of this test with this content. */
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

/** Does something with these variables alone; libraries look into the environment of the process. */
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
  /** Standard output and error, and what a library wrote past us. */
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
          dispose: () => undefined,
        }),
      });
      return { code, text };
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
  });
}

/** As people and as programs ask for it. What is told without either of them is told with `--verbose` as well. */
export const LOUD_MODES: readonly (readonly string[])[] = [['--verbose'], ['--json']];

/** Every form in which an error, or anything else of ours, may end up in a log. */
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
