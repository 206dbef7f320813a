/** For tests that compare Holdfast's files with what Python's libraries read and write. */

import { spawn } from 'node:child_process';
import { buffer, text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { describeOnServer, whyNone } from '../servers/server-suite.ts';
import { PYTHON_TITLE, pythonProgram } from './python-program.ts';

const TIMEOUT_MS = 60_000;

/**
 * Runs a script, given as its text or as the URL of its file. Resolves to its output, as UTF-8.
 * `input` is its standard input. If the exit status is not 0, rejects with the script's standard
 * error. `protobuf`, `grpc_tools` (protoc), `numpy` and `safetensors` are available.
 */
export async function runPython(
  script: string | URL,
  args: readonly string[] = [],
  input: string | Uint8Array = '',
): Promise<string> {
  const what = script instanceof URL ? [fileURLToPath(script)] : ['-c', script];
  return runProgram(await pythonProgram(), [...what, ...args], { input, timeoutMs: TIMEOUT_MS });
}

export interface RunOptions {
  readonly input?: string | Uint8Array;
  readonly timeoutMs: number;
}

/** Runs a Python with these arguments, and resolves or rejects as `runPython`. */
export async function runProgram(
  python: string,
  args: readonly string[],
  { input = '', timeoutMs }: RunOptions,
): Promise<string> {
  // -B: no __pycache__ beside the scripts, which are in the repository.
  const child = spawn(python, ['-B', ...args], { timeout: timeoutMs });
  // A script that ends early does not have to read all of it.
  child.stdin.on('error', () => child.stdin.destroy());
  child.stdin.end(input);
  const ended = new Promise<string>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve(signal ? `signal ${signal}` : `status ${code}`));
  });
  const [how, output, errors] = await Promise.all([ended, buffer(child.stdout), text(child.stderr)]);
  if (how !== 'status 0') throw new Error(`Python ended with ${how}:\n${errors}`);
  return output.toString('utf8');
}

const WHY_NO_PYTHON = await whyNone(PYTHON_TITLE, pythonProgram, async () => undefined);

/**
 * A `describe` for tests that call `runPython`. Without Python it is skipped, with a line that says
 * why, unless the suite is required.
 */
export function describeWithPython(name: string, body: () => void): void {
  const open = async () => ({ stop: async () => undefined });
  describeOnServer({ suite: 'python', name, whyNone: WHY_NO_PYTHON, open }, body);
}
