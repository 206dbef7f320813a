// Runs a command of this repository under the right Node and pnpm, and fetches what is missing.
// Needs only Node 18 and npm.
//
//   node scripts/bootstrap.mjs COMMAND [ARGUMENT…]   run it in the root of the clone
//   node scripts/bootstrap.mjs --cli [ARGUMENT…]     build the command and run it in this directory
//   node scripts/bootstrap.mjs --path                print the PATH it would use
//
// It prints one line on stderr for each step, and nothing if no step is needed.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { CACHE, FetchError, fetchPackage, inCache, isRefusedWrite } from './fetch-package.mjs';
import { childEnv, isMusl, isSuitableNode, nodePackage, PNPM_VERSION } from './toolchain.mjs';

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const INSTALL_STAMP = path.join(ROOT, 'node_modules', '.holdfast-installed');
/**
 * bin/holdfast reads this file. It contains the path of Node. Its modification time is the start of
 * the build.
 */
const CLI_STAMP = path.join(ROOT, 'node_modules', '.holdfast-cli');
const CLI_BUNDLE = path.join(ROOT, 'packages', 'cli', 'dist', 'holdfast.mjs');
const STARTED_MS = Date.now();
const LOCK_POLL_MS = 200;
const LOCK_WAIT_MS_MAX = 15 * 60_000;

/** Commands of pnpm that install and write the lockfile. One that is behind must not stop them. */
const INSTALLING = new Set(['install', 'i', 'add', 'remove', 'rm', 'update', 'up']);

class BootstrapError extends Error {}

function say(line) {
  process.stderr.write(`holdfast: ${line}\n`);
}

function findNode() {
  if (isSuitableNode(process.versions.node)) return process.execPath;
  const { platform, arch } = process;
  const musl = platform === 'linux' && isMusl(process.report.getReport());
  const wanted = nodePackage({ platform, arch, musl });
  if (!wanted) {
    const where = `${platform} ${arch}${musl ? ' with musl' : ''}`;
    throw new BootstrapError(
      `Node 24 cannot be fetched for ${where}; install Node 24, put it on the PATH and try again`,
    );
  }
  return path.join(fetchPackage(wanted, { say }), 'bin', 'node');
}

/**
 * A directory with `node` and `pnpm` as programs, so that every process we start finds these two.
 */
function toolDirectory(node) {
  const pnpm = path.join(fetchPackage({ name: 'pnpm', version: PNPM_VERSION }, { say }), 'bin', 'pnpm.cjs');
  const key = createHash('sha256').update(`${node}\n${pnpm}`).digest('hex').slice(0, 12);
  const target = path.join(CACHE, `bin-${key}`);
  if (fs.existsSync(target)) return target;
  const temporary = inCache(() => fs.mkdtempSync(path.join(CACHE, '.bin-')));
  const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  fs.symlinkSync(node, path.join(temporary, 'node'));
  fs.writeFileSync(path.join(temporary, 'pnpm'), `#!/bin/sh\nexec ${quote(node)} ${quote(pnpm)} "$@"\n`, {
    mode: 0o755,
  });
  fs.chmodSync(temporary, 0o755);
  try {
    fs.renameSync(temporary, target);
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST'].includes(error.code)) throw error;
    fs.rmSync(temporary, { recursive: true, force: true });
  }
  return target;
}

function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/**
 * Runs `work` while no other process of this machine runs one in the same clone. It takes over a
 * lock whose owner has ended.
 */
async function withCloneLock(work) {
  const name = createHash('sha256').update(ROOT).digest('hex').slice(0, 12);
  const lock = path.join(CACHE, `lock-${name}`);
  const deadline = Date.now() + LOCK_WAIT_MS_MAX;
  for (let isFirst = true; ; isFirst = false) {
    if (inCache(() => takeLock(lock))) break;
    const owner = readIfPresent(lock);
    if (/^\d+$/.test(owner) && !isRunning(Number(owner))) fs.rmSync(lock, { force: true });
    else if (isFirst) say(`waiting for process ${owner}, which prepares this clone`);
    if (Date.now() > deadline)
      throw new BootstrapError(
        `process ${owner} has held ${lock} for too long; end it, remove the file, and try again`,
      );
    await new Promise((resolve) => setTimeout(resolve, LOCK_POLL_MS));
  }
  try {
    return await work();
  } finally {
    fs.rmSync(lock, { force: true });
  }
}

/** Returns false if another process holds the lock. */
function takeLock(lock) {
  try {
    fs.writeFileSync(lock, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

function readIfPresent(file) {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return '';
    throw error;
  }
}

/**
 * Runs a preparing step. Its output is shown only if it fails, and always on stderr, because stdout
 * belongs to the command.
 */
function prepare(command, args, env) {
  const result = spawnSync(command, args, {
    cwd: ROOT,
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (result.error) throw result.error;
  if (result.status === 0) return;
  process.stderr.write(result.stdout + result.stderr);
  throw new BootstrapError(`${path.basename(command)} ${args[0]} failed; its own words are above`);
}

/**
 * Run this before the first step that writes into the clone: it explains the problem better than
 * pnpm does.
 */
function assertCloneWritable() {
  try {
    fs.accessSync(ROOT, fs.constants.W_OK);
  } catch (error) {
    if (!isRefusedWrite(error)) throw error;
    throw new BootstrapError(
      `this user cannot write the clone ${ROOT}, which is not prepared for it; install the command as docs/install.md says, or use a clone of your own`,
    );
  }
}

function lockfileHash() {
  const lockfile = readIfPresent(path.join(ROOT, 'pnpm-lock.yaml'));
  if (lockfile === '') throw new BootstrapError('pnpm-lock.yaml is missing; this clone is not complete');
  return createHash('sha256').update(lockfile).digest('hex');
}

async function installDependencies(env) {
  const hash = lockfileHash();
  if (readIfPresent(INSTALL_STAMP) === hash) return;
  await withCloneLock(() => {
    if (readIfPresent(INSTALL_STAMP) === hash) return;
    assertCloneWritable();
    say('installing dependencies (pnpm install)');
    prepare('pnpm', ['install', '--frozen-lockfile'], { ...env, CI: 'true' });
    fs.writeFileSync(INSTALL_STAMP, hash);
  });
}

async function buildCli(env, node) {
  await withCloneLock(() => {
    // Another process may have built while we waited. Its build began after we started, so it is
    // new enough.
    if (fs.existsSync(CLI_STAMP) && fs.statSync(CLI_STAMP).mtimeMs > STARTED_MS) return;
    assertCloneWritable();
    say('building the holdfast command');
    const started = `${CLI_STAMP}.${process.pid}`;
    fs.writeFileSync(started, `${node}\n`);
    prepare(node, ['packages/cli/build.mjs'], env);
    fs.renameSync(started, CLI_STAMP);
  });
}

/** Runs the command in place of this process: with its signals, streams and exit status. */
function become(command, args, options) {
  const child = spawn(command, args, { stdio: 'inherit', ...options });
  const forward = (signal) => child.kill(signal);
  process.on('SIGINT', () => {
    // Ctrl-C reaches the whole foreground group, so the child decides how to react.
  });
  process.on('SIGTERM', forward);
  process.on('SIGHUP', forward);
  child.on('error', (error) => {
    say(error.code === 'ENOENT' ? `${command} was not found` : `cannot start ${command}: ${error.message}`);
    process.exit(127);
  });
  child.on('exit', (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : (code ?? 1)));
}

async function main([command, ...args]) {
  if (command === undefined)
    throw new BootstrapError('usage: node scripts/bootstrap.mjs COMMAND [ARGUMENT…]');
  const node = findNode();
  const PATH = [toolDirectory(node), path.join(ROOT, 'node_modules', '.bin'), process.env.PATH].join(
    path.delimiter,
  );
  const env = childEnv({ env: process.env, path: PATH });
  if (command === '--path') return void process.stdout.write(`${PATH}\n`);
  const installsItself = command === 'pnpm' && args.some((word) => INSTALLING.has(word));
  if (!installsItself) await installDependencies(env);
  if (command !== '--cli') return become(command, args, { cwd: ROOT, env });
  await buildCli(env, node);
  become(node, [CLI_BUNDLE, ...args], { env: process.env });
}

main(process.argv.slice(2)).catch((error) => {
  say(error instanceof BootstrapError || error instanceof FetchError ? error.message : error.stack);
  process.exit(1);
});
