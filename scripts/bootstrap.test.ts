import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { PNPM_VERSION } from './toolchain.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const READ_ONLY = 0o555;
const WRITABLE = 0o755;
/** Limit for a process that hangs. */
const TIMEOUT_MS = 20_000;

/** Makes file modes hold for root as well. */
const BOUND = ['setpriv', '--bounding-set', '-dac_override,-dac_read_search', '--inh-caps', '-all'];

let directory: string;
let clone: string;
let cache: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-bootstrap-'));
  clone = join(directory, 'clone');
  cache = join(directory, 'cache');
  mkdirSync(cache);
  mkdirSync(clone);
  cpSync(join(ROOT, 'scripts'), join(clone, 'scripts'), { recursive: true });
  writeFileSync(join(clone, 'pnpm-lock.yaml'), 'any');
});

afterEach(() => {
  for (const each of [clone, join(directory, 'cache')]) chmodSync(each, WRITABLE);
  rmSync(directory, { recursive: true });
});

function bootstrap(...args: string[]) {
  const bound = process.getuid?.() === 0 ? BOUND : [];
  const words = [...bound, process.execPath, join(clone, 'scripts', 'bootstrap.mjs'), ...args];
  const env = { PATH: process.env['PATH'], HOLDFAST_CACHE: cache };
  const { status, stderr, stdout } = spawnSync(words[0] as string, words.slice(1), {
    env,
    encoding: 'utf8',
    timeout: TIMEOUT_MS,
  });
  return { status, stdout, last: stderr.trimEnd().split('\n').at(-1) };
}

describe('bootstrap, where it may not write', () => {
  const refused = (code: string) => ({
    status: 1,
    stdout: '',
    last: `holdfast: the cache ${cache} cannot be written (${code}); set HOLDFAST_CACHE to a directory that can`,
  });

  test('a cache: it is named, with the variable that leads elsewhere', () => {
    chmodSync(cache, READ_ONLY);
    expect(bootstrap('node', '--version')).toEqual(refused('EACCES'));
  });

  test('a cache of another user, in which everything is fetched', () => {
    mkdirSync(join(cache, `pnpm-${PNPM_VERSION}`, 'bin'), { recursive: true });
    chmodSync(cache, READ_ONLY);
    expect(bootstrap('node', '--version')).toEqual(refused('EACCES'));
  });

  test('a cache of another user, in which a clone waits for its dependencies', () => {
    mkdirSync(join(cache, `pnpm-${PNPM_VERSION}`, 'bin'), { recursive: true });
    expect(bootstrap('--path').status).toBe(0);
    chmodSync(cache, READ_ONLY);
    expect(bootstrap('node', '--version')).toEqual(refused('EACCES'));
  });

  test('a cache below a file, or below what takes no names', () => {
    writeFileSync(join(directory, 'file'), '');
    cache = join(directory, 'file', 'cache');
    expect(bootstrap('node', '--version')).toEqual(refused('ENOTDIR'));
    cache = '/proc/none/cache';
    expect(bootstrap('node', '--version')).toEqual(refused('ENOENT'));
  });

  test.each([['node', '--version'], ['--cli']])(
    'a clone of another user that is not prepared: %s',
    (...args) => {
      mkdirSync(join(cache, `pnpm-${PNPM_VERSION}`, 'bin'), { recursive: true });
      chmodSync(clone, READ_ONLY);
      expect(bootstrap(...args)).toEqual({
        status: 1,
        stdout: '',
        last: `holdfast: this user cannot write the clone ${clone}, which is not prepared for it; install the command as docs/install.md says, or use a clone of your own`,
      });
    },
  );
});

describe('bootstrap, where the lockfile is behind a package.json', () => {
  beforeEach(() => {
    const bin = join(cache, `pnpm-${PNPM_VERSION}`, 'bin');
    mkdirSync(bin, { recursive: true });
    const program = "const words = process.argv.slice(2); console.log(words.join(' '));";
    const refuses = "process.exitCode = words.includes('--frozen-lockfile') ? 1 : 0;";
    writeFileSync(join(bin, 'pnpm.cjs'), `${program}\n${refuses}\n`);
  });

  test.each([['install'], ['--filter @holdfast/core add some-package']])('pnpm %s corrects it', (words) => {
    expect(bootstrap('pnpm', ...words.split(' '))).toMatchObject({ status: 0, stdout: `${words}\n` });
  });

  test('any other command ends with what pnpm said', () => {
    const last = 'holdfast: pnpm install failed; its own words are above';
    expect(bootstrap('pnpm', 'ls')).toEqual({ status: 1, stdout: '', last });
  });
});
