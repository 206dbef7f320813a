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

/** Installs missing peers. Needs `python3` with venv, and npm. Safe to repeat. */
export function installPeers({ python, modules }: Places): void {
  if (!existsSync(join(python, 'bin', 'python'))) runStep('python3', ['-m', 'venv', python]);
  const pinned = Object.entries(PYTHON_PACKAGES).map(([name, version]) => `${name}==${version}`);
  runStep(join(python, 'bin', 'python'), [
    '-m',
    'pip',
    'install',
    '--quiet',
    '--disable-pip-version-check',
    ...pinned,
  ]);
  mkdirSync(modules, { recursive: true });
  writeFileSync(join(modules, 'package.json'), '{ "private": true }\n');
  const npm = npmCommand({ env: process.env, execPath: process.execPath });
  const packages = Object.entries(NPM_PACKAGES).map(([name, version]) => `${name}@${version}`);
  const flags = [
    '--no-save',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--global=false',
    '--loglevel=error',
  ];
  runStep(npm.command, [...npm.args, 'install', '--prefix', modules, ...flags, ...packages]);
}
