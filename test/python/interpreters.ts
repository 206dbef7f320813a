/** The Pythons of this machine. */

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { say } from '../servers/cached-build.ts';

const WANTED = ['3.11', '3.12'];

/** Prints the version, if it can make environments. */
const TELL = 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2])';

/**
 * Programs that the wheel is tried with, by their version. Without any of the wanted versions,
 * `python3`: empty if that is missing too. Pythons of pyenv are found also if its settings do not
 * select them.
 */
export function interpreters(): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const version of WANTED) {
    const program = interpreter(version);
    if (program === undefined) say(`there is no Python ${version}; the wheel is not tried with it`);
    else found.set(version, program);
  }
  const other = versionOf('python3');
  if (found.size === 0 && other !== undefined) found.set(other, 'python3');
  return found;
}

/** Program of a version, if it can make environments. */
export function interpreter(version: string): string | undefined {
  return [`python${version}`, ...fromPyenv(version)].find((each) => versionOf(each) === version);
}

function fromPyenv(version: string): string[] {
  const home = join(process.env['PYENV_ROOT'] || join(homedir(), '.pyenv'), 'versions');
  if (!existsSync(home)) return [];
  const names = readdirSync(home).filter((name) => name.startsWith(`${version}.`));
  return names.map((name) => join(home, name, 'bin', 'python3'));
}

function versionOf(program: string): string | undefined {
  try {
    return execFileSync(program, ['-c', TELL], { stdio: ['ignore', 'pipe', 'ignore'] })
      .toString()
      .trim();
  } catch {
    return undefined;
  }
}
