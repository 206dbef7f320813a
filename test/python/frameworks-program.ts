/** A Python with PyTorch and trainers, in a separate virtual environment of 6 GB. */

import { createHash } from 'node:crypto';
import { cachedBuild, ServerUnavailable, say } from '../servers/cached-build.ts';
import { testConfig } from '../servers/config.ts';
import { interpreter } from './interpreters.ts';
import { buildEnvironment } from './python-program.ts';

export const FRAMEWORKS_TITLE = 'Python with PyTorch and trainers';
export const PYTHON_VERSION = '3.12';

const REQUIREMENTS = [
  'torch==2.15.0',
  'safetensors==0.8.0',
  'numpy==2.5.5',
  'transformers==5.23.0',
  'accelerate==1.15.0',
  'lightning==2.6.6',
  'fsspec==2026.9.0',
  'pyarrow==26.0.1',
  'ray[train]==2.60.0',
  'pytest==9.2.0', // fsspec's own tests of file systems
  'torchvision==0.29.2', // from here to importlib-metadata: imported by mosaicml
  'torchmetrics==1.9.0',
  'torch-optimizer==0.3.0',
  'coolname==5.0.0',
  'py-cpuinfo==9.0.0',
  'mosaicml-cli==0.7.5',
  'tabulate==0.10.0',
  'importlib-metadata==8.7.0',
  'hjson==3.1.0', // from here to einops: imported by deepspeed
  'ninja==1.13.2',
  'msgpack==1.2.4',
  'einops==0.8.2',
];

/**
 * Without what they ask for: mosaicml names older releases of PyTorch, and the others' requirements
 * are above. deepspeed is built from source, without its native operations.
 */
const ALONE = ['mosaicml==0.32.1', 'megatron-core==0.19.2', 'deepspeed==0.19.8'];

/** Name of the directory in the cache. It changes with the requirements. */
export const FRAMEWORKS_HOME = `frameworks-${createHash('sha256')
  .update([...REQUIREMENTS, ...ALONE].join('\n'))
  .digest('hex')
  .slice(0, 12)}`;

/**
 * Returns the path of the interpreter, and prepares it if it is missing, as `cachedBuild` does.
 * Throws `ServerUnavailable` if that fails.
 */
export async function frameworksProgram(): Promise<string> {
  return cachedBuild({ title: FRAMEWORKS_TITLE, home: FRAMEWORKS_HOME, file: 'bin/python', build });
}

async function build(directory: string): Promise<void> {
  // A first run of the tests is not expected to download so much.
  if (!testConfig(process.env).requiredSuites.has('frameworks'))
    throw new ServerUnavailable(`${FRAMEWORKS_TITLE} takes 6 GB; HOLDFAST_REQUIRE=frameworks prepares it`);
  const python = interpreter(PYTHON_VERSION);
  if (python === undefined)
    throw new ServerUnavailable(
      `Python ${PYTHON_VERSION} was not found; install it with its modules venv and ensurepip`,
    );
  say(`preparing ${FRAMEWORKS_TITLE}, 6 GB, some minutes, once`);
  await buildEnvironment({
    title: FRAMEWORKS_TITLE,
    python,
    requirements: REQUIREMENTS,
    alone: ALONE,
    directory,
  });
}
