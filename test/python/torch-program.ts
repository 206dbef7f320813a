/** A Python with PyTorch, in a separate virtual environment: 5.5 GB on x64. */

import { createHash } from 'node:crypto';
import { cachedBuild, ServerUnavailable, say } from '../servers/cached-build.ts';
import { testConfig } from '../servers/config.ts';
import { interpreter } from './interpreters.ts';
import { buildEnvironment } from './python-program.ts';

export const TORCH_TITLE = 'PyTorch';
const PYTHON_VERSION = '3.12';

const REQUIREMENTS = ['torch==2.15.0', 'safetensors==0.8.0', 'numpy==2.5.5'];

/** Name of the directory in the cache. It changes with the requirements. */
export const TORCH_HOME = `torch-${createHash('sha256').update(REQUIREMENTS.join('\n')).digest('hex').slice(0, 12)}`;

/**
 * Returns the path of the interpreter, and prepares it if it is missing, as `cachedBuild` does.
 * Throws `ServerUnavailable` if that fails.
 */
export async function torchProgram(): Promise<string> {
  return cachedBuild({ title: TORCH_TITLE, home: TORCH_HOME, file: 'bin/python', build });
}

async function build(directory: string): Promise<void> {
  // A first run of the tests is not expected to download so much.
  if (!testConfig(process.env).requiredSuites.has('torch'))
    throw new ServerUnavailable(`${TORCH_TITLE} takes 5.5 GB; HOLDFAST_REQUIRE=torch prepares it`);
  const python = interpreter(PYTHON_VERSION);
  if (python === undefined)
    throw new ServerUnavailable(
      `Python ${PYTHON_VERSION} was not found; install it with its modules venv and ensurepip`,
    );
  say(`preparing ${TORCH_TITLE}, 5.5 GB, some minutes, once`);
  await buildEnvironment({ title: TORCH_TITLE, python, requirements: REQUIREMENTS, directory });
}
