/** Installs peers from their registries, at pinned versions, into the cache. */

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
// @boundaries-ignore the bootstrap decides which npm there is
import { npmCommand } from '../../../scripts/toolchain.mjs';
import { NPM_PACKAGES, type Places, PYTHON_PACKAGES } from './peers.ts';

function runStep(program: string, args: readonly string[]): void {
  process.stderr.write(`${program} ${args.join(' ')}\n`);
  const { status, error } = spawnSync(program, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  if (error) throw error;
  if (status !== 0) throw new Error(`${program} ended with ${status}; its own words are above`);
}

/** Makes a virtual environment and installs packages of these versions. Safe to repeat. */
export function installPython(home: string, packages: Readonly<Record<string, string>>): void {
  if (!existsSync(join(home, 'bin', 'python'))) runStep('python3', ['-m', 'venv', home]);
  const pinned = Object.entries(packages).map(([name, version]) => `${name}==${version}`);
  const options = ['--quiet', '--disable-pip-version-check'];
  runStep(join(home, 'bin', 'python'), ['-m', 'pip', 'install', ...options, ...pinned]);
}

/** Installs missing peers. Needs `python3` with venv, and npm. Safe to repeat. */
export function installPeers({ python, modules }: Places): void {
  installPython(python, PYTHON_PACKAGES);
  installNpm(modules, NPM_PACKAGES);
}

/** Installs these versions into `directory`. No script of a package runs. Safe to repeat. */
export function installNpm(directory: string, versions: Readonly<Record<string, string>>): void {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'package.json'), '{ "private": true }\n');
  const npm = npmCommand({ env: process.env, execPath: process.execPath });
  const packages = Object.entries(versions).map(([name, version]) => `${name}@${version}`);
  const flags = [
    '--no-save',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--global=false',
    '--loglevel=error',
  ];
  runStep(npm.command, [...npm.args, 'install', '--prefix', directory, ...flags, ...packages]);
}
