/** A Python with the libraries that files are compared with, in a separate virtual environment. */

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cachedBuild, runBuildStep, ServerUnavailable, say } from '../servers/cached-build.ts';
import { hasErrorCode } from '../servers/error-code.ts';

export const PYTHON_TITLE = 'Python with protobuf, numpy, safetensors and mypy';

// No release of numpy supports both 3.9 and 3.14.
const REQUIREMENTS = [
  'protobuf==6.33.6',
  'grpcio-tools==1.76.0', // protoc
  'grpcio==1.76.0',
  'safetensors==0.7.0',
  "mypy==2.4.1; python_version >= '3.10'", // no release for 3.9
  "numpy==2.0.2; python_version < '3.11'",
  "numpy==2.3.5; python_version >= '3.11'",
];

/** Name of the directory in the cache. It changes with the requirements and with the Python. */
export const PYTHON_HOME = `python-${createHash('sha256').update(REQUIREMENTS.join('\n')).digest('hex').slice(0, 12)}`;

/**
 * Returns the path of the interpreter, and prepares it if it is missing, as `cachedBuild` does.
 * Throws `ServerUnavailable` if that fails.
 */
export async function pythonProgram(): Promise<string> {
  return cachedBuild({ title: PYTHON_TITLE, home: PYTHON_HOME, file: 'bin/python', build });
}

const IS_NEW_ENOUGH = 'import sys, venv; sys.exit(sys.version_info < (3, 9))';

/** Throws `ServerUnavailable` if there is no Python for virtual environments. */
export async function requirePython(): Promise<void> {
  try {
    await promisify(execFile)('python3', ['-c', IS_NEW_ENOUGH]);
  } catch (error) {
    const why = hasErrorCode(error, 'ENOENT') ? 'was not found' : 'does not run, or is older, or lacks venv';
    throw new ServerUnavailable(`Python 3.9 or newer (python3) ${why}; install it with its module venv`);
  }
}

async function build(directory: string): Promise<void> {
  await requirePython();
  say(`preparing ${PYTHON_TITLE}, less than a minute, once`);
  await buildEnvironment({ title: PYTHON_TITLE, python: 'python3', requirements: REQUIREMENTS, directory });
}

export interface Environment {
  readonly title: string;
  /** Program that makes it. */
  readonly python: string;
  /** As pip takes them. Only wheels are installed. */
  readonly requirements: readonly string[];
  /** Installed after them, without what they ask for. Built if there is no wheel. */
  readonly alone?: readonly string[];
  readonly directory: string;
}

/** Makes a virtual environment. Throws `ServerUnavailable` if that fails. */
export async function buildEnvironment(wanted: Environment): Promise<void> {
  const { title, python, requirements, alone = [], directory } = wanted;
  const env = { ...process.env } as Record<string, string>;
  // The environment is kept, so a copy of the wheels would be of no use.
  const options = ['--no-cache-dir', '--disable-pip-version-check', '--no-input'];
  const install = [join(directory, 'bin', 'python'), '-m', 'pip', 'install', ...options];
  const steps = [[python, '-m', 'venv', directory]];
  if (requirements.length > 0) steps.push([...install, '--only-binary', ':all:', ...requirements]);
  if (alone.length > 0) steps.push([...install, '--no-deps', ...alone]);
  for (const words of steps) await runBuildStep({ title, words, env, directory });
}
