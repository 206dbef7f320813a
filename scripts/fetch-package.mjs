// Fetches npm packages into the cache, with the user's npm configuration. Runs on Node 18.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { cacheDir, explainNpmFailure, npmCommand } from './toolchain.mjs';

export const CACHE = path.resolve(
  cacheDir({ env: process.env, platform: process.platform, home: os.homedir() }),
);

/** A failure that its message fully explains. */
export class FetchError extends Error {}

/**
 * Returns the directory of one npm package in the cache. Fetches the package if it is missing. Many
 * processes may call it at once, because the last step is a rename. `forOtherMachine`: the package
 * need not run on this machine.
 */
export function fetchPackage({ name, version }, { say, forOtherMachine = false }) {
  const target = path.join(CACHE, `${name.replace('/', '+')}-${version}`);
  if (fs.existsSync(target)) return target;
  say(`fetching ${name} ${version} into ${CACHE}`);
  const temporary = inCache(() => fs.mkdtempSync(path.join(CACHE, '.fetch-')));
  try {
    npmInstall(`${name}@${version}`, temporary, forOtherMachine ? ['--force'] : []);
    fs.renameSync(path.join(temporary, 'node_modules', name), target);
  } catch (error) {
    // Another process was faster, and its copy is equally good.
    if (!['ENOTEMPTY', 'EEXIST'].includes(error.code)) throw error;
  } finally {
    fs.rmSync(temporary, { recursive: true, force: true });
  }
  return target;
}

/**
 * Creates the cache, then calls `make` to create something in it. Throws `FetchError` if the file
 * system rejects the write.
 */
export function inCache(make) {
  try {
    makeDirectory(CACHE);
    return make();
  } catch (error) {
    if (error.syscall === undefined) throw error;
    throw new FetchError(
      `the cache ${CACHE} cannot be written (${error.code}); set HOLDFAST_CACHE to a directory that can`,
    );
  }
}

/**
 * Creates a directory with its parents. Node's recursive mkdir never returns if a parent accepts no
 * new names, as below /proc.
 */
function makeDirectory(directory) {
  if (fs.existsSync(directory)) return;
  makeDirectory(path.dirname(directory));
  try {
    fs.mkdirSync(directory);
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
  }
}

/** True if the file system rejected a write. */
export function isRefusedWrite(error) {
  return ['EACCES', 'EPERM', 'EROFS'].includes(error.code);
}

function npmInstall(spec, directory, more) {
  const npm = npmCommand({ env: process.env, execPath: process.execPath });
  const flags = [
    '--no-save',
    '--no-package-lock',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--global=false',
    '--loglevel=error',
    ...more,
  ];
  const result = spawnSync(npm.command, [...npm.args, 'install', '--prefix', directory, ...flags, spec], {
    cwd: directory,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (result.error?.code === 'ENOENT') {
    throw new FetchError(
      `npm was not found, and it is needed to fetch ${spec}; install Node with npm and try again`,
    );
  }
  if (result.error) throw result.error;
  if (result.status === 0) return;
  process.stderr.write(result.stdout + result.stderr);
  throw new FetchError(`cannot fetch ${spec}: ${explainNpmFailure(result.stdout + result.stderr)}`);
}
