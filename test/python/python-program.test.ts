import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ServerUnavailable } from '../servers/cached-build.ts';
import { PYTHON_HOME, pythonProgram } from './python-program.ts';

let directory: string;
let cache: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-python-'));
  cache = join(directory, 'cache');
  mkdirSync(join(directory, 'bin'));
  vi.stubEnv('PATH', `${join(directory, 'bin')}${delimiter}/bin${delimiter}/usr/bin`);
  vi.stubEnv('HOLDFAST_CACHE', cache);
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  rmSync(directory, { recursive: true, force: true });
});

/**
 * Puts a `python3` first on the PATH. Its `-m venv` makes a `python` that runs `install` for `-m
 * pip install`.
 */
function fakePython(install: string, isNewEnough = true): void {
  const file = join(directory, 'bin', 'python3');
  const venv = `mkdir -p "$3/bin"; printf '#!/bin/sh\\n%s\\n' '${install}' > "$3/bin/python"; chmod +x "$3/bin/python"`;
  writeFileSync(file, `#!/bin/sh\nif [ "$1" = -c ]; then exit ${isNewEnough ? 0 : 1}; fi\n${venv}\n`);
  chmodSync(file, 0o755);
}

test('it is prepared when it is missing, and there the next time', async () => {
  fakePython('echo "$*"');
  const path = await pythonProgram();
  expect(path).toBe(join(cache, PYTHON_HOME, 'bin', 'python'));
  expect(existsSync(path)).toBe(true);
  fakePython('exit 1');
  expect(await pythonProgram()).toBe(path);
});

test('one whose interpreter is gone is prepared anew', async () => {
  fakePython('exit 0');
  mkdirSync(join(cache, PYTHON_HOME, 'lib'), { recursive: true });
  expect(existsSync(await pythonProgram())).toBe(true);
  expect(existsSync(join(cache, PYTHON_HOME, 'lib'))).toBe(false);
});

test('no Python: unavailable, and it says what to install', async () => {
  vi.stubEnv('PATH', join(directory, 'bin'));
  await expect(pythonProgram()).rejects.toThrow(ServerUnavailable);
  await expect(pythonProgram()).rejects.toThrow('Python 3.9 or newer (python3) was not found; install it');
});

test('an old Python: unavailable', async () => {
  fakePython('', false);
  await expect(pythonProgram()).rejects.toThrow('(python3) does not run, or is older, or lacks venv');
});

test('libraries that cannot be installed: unavailable, with the words of pip, and nothing is kept', async () => {
  fakePython('echo no such release >&2; exit 1');
  await expect(pythonProgram()).rejects.toThrow(
    /^Python with .* cannot be built: .* -m pip install .* ended with status 1:\nno such release$/,
  );
  expect(readdirSync(cache)).toEqual([]);
});
