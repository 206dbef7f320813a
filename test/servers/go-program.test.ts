import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ServerUnavailable } from './cached-build.ts';
import { type GoProgram, goProgram } from './go-program.ts';

const PROGRAM: GoProgram = {
  name: 'fake',
  title: 'Fake',
  path: 'example.org/fake/cmd/fake',
  version: 'v1.2.3',
};
const MODULE = new URL('./go-program.ts', import.meta.url).href;

let directory: string;
let cache: string;
/** A log of the calls of the fake `go`, a line each. */
let calls: string;
let env: Record<string, string>;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-go-'));
  cache = join(directory, 'cache');
  calls = join(directory, 'calls');
  mkdirSync(join(directory, 'bin'));
  env = { PATH: `${join(directory, 'bin')}${delimiter}${process.env['PATH']}`, HOLDFAST_CACHE: cache };
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  rmSync(directory, { recursive: true, force: true });
});

/** Puts a `go` first on the PATH. It runs this script for `go install`. */
function fakeGo(install: string): void {
  const file = join(directory, 'bin', 'go');
  writeFileSync(
    file,
    `#!/bin/sh\n[ "$1" = version ] && exit 0\necho "$CGO_ENABLED $*" >> '${calls}'\n${install}\n`,
  );
  chmodSync(file, 0o755);
}

const BUILDS = 'sleep 0.2; echo binary > "$GOBIN/fake"';

function callsMade(): string[] {
  return existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : [];
}

function silent() {
  return vi.spyOn(process.stderr, 'write').mockReturnValue(true);
}

/** A separate process that asks for the program. */
function another(): ChildProcess {
  const code = `import { goProgram } from '${MODULE}'; console.log(await goProgram(${JSON.stringify(PROGRAM)}));`;
  return spawn(process.execPath, ['--conditions=holdfast-source', '--input-type=module', '-e', code], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

describe('a program of Go', () => {
  test('is built at its version when it is missing, says so in one line, and is there the next time', async () => {
    fakeGo(BUILDS);
    const said = silent();
    const path = await goProgram(PROGRAM);
    expect(path).toBe(join(cache, 'fake-v1.2.3', 'fake'));
    expect(readFileSync(path, 'utf8')).toBe('binary\n');
    expect(callsMade()).toEqual(['0 install example.org/fake/cmd/fake@v1.2.3']);
    expect(said.mock.calls.map(([line]) => line)).toEqual([
      `holdfast: building Fake v1.2.3 into ${join(cache, 'fake-v1.2.3')}, some minutes, once\n`,
    ]);
    expect(await goProgram(PROGRAM)).toBe(path);
    expect(callsMade()).toHaveLength(1);
    expect(readdirSync(cache)).toEqual(['fake-v1.2.3']);
  });

  test('another version is another program', async () => {
    fakeGo(BUILDS);
    silent();
    const paths = [await goProgram(PROGRAM), await goProgram({ ...PROGRAM, version: 'v2.0.0' })];
    expect(new Set(paths).size).toBe(2);
    expect(callsMade()).toHaveLength(2);
  });

  test('two processes that want it at once build it once', async () => {
    fakeGo(BUILDS);
    const both = [another(), another()].map((child) => text(child.stdout as NodeJS.ReadableStream));
    expect(await Promise.all(both)).toEqual(Array(2).fill(`${join(cache, 'fake-v1.2.3', 'fake')}\n`));
    expect(callsMade()).toHaveLength(1);
  });

  test('a builder that was killed leaves nothing that runs, and the next one builds', async () => {
    fakeGo(`echo $$ > '${join(directory, 'pid')}'; exec sleep 600`);
    const killed = another();
    const pidFile = join(directory, 'pid');
    while (!existsSync(pidFile) || readFileSync(pidFile, 'utf8') === '') await sleep(20);
    killed.kill('SIGKILL');
    fakeGo(BUILDS);
    silent();
    expect(existsSync(await goProgram(PROGRAM))).toBe(true);
    const pid = Number(readFileSync(pidFile, 'utf8'));
    await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow('ESRCH'), 10_000);
    await vi.waitFor(() => expect(readdirSync(cache)).toEqual(['fake-v1.2.3']), 10_000);
  });
});

describe('a program that cannot be had', () => {
  test('because there is no Go', async () => {
    vi.stubEnv('PATH', join(directory, 'bin'));
    await expect(goProgram(PROGRAM)).rejects.toThrow(ServerUnavailable);
    await expect(goProgram(PROGRAM)).rejects.toThrow('Go was not found, and it is needed to build Fake');
  });

  test('because Go does not run', async () => {
    fakeGo('');
    writeFileSync(join(directory, 'bin', 'go'), '#!/bin/sh\nexit 1\n');
    await expect(goProgram(PROGRAM)).rejects.toThrow('Go does not run');
  });

  test.each([
    ['fails', 'echo no such host >&2; exit 1', 'ended with status 1:\nno such host'],
    ['writes no program', 'echo done', 'ended with status 0:\ndone'],
  ])('because its build %s: the words of Go, and nothing is kept', async (_what, install, message) => {
    fakeGo(install);
    silent();
    const failing = goProgram(PROGRAM);
    await expect(failing).rejects.toThrow(ServerUnavailable);
    await expect(failing).rejects.toThrow(
      `Fake cannot be built: go install example.org/fake/cmd/fake@v1.2.3 ${message}`,
    );
    expect(readdirSync(cache)).toEqual([]);
  });
});
