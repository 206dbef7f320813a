import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

const MODULE = fileURLToPath(new URL('native-code.ts', import.meta.url));

let directory: string;
/** Code of an older source. */
let older: string[];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-native-'));
  mkdirSync(join(directory, 'bin'));
  symlinkSync(process.execPath, join(directory, 'bin', 'node'));
  older = [];
  for (const [folder, name] of [
    ['core', 'crc32c'],
    ['cli', 'exit'],
  ] as const) {
    const native = join(directory, 'packages', folder, 'native');
    mkdirSync(native, { recursive: true });
    writeFileSync(join(native, `${name}.c`), 'int x;');
    older.push(join(native, `${name}-linux-x64.node`));
  }
  for (const file of older) writeFileSync(file, 'old');
});

afterEach(() => rmSync(directory, { recursive: true, force: true }));

interface Ended {
  readonly code: unknown;
  readonly stderr: string;
}

/** Runs `tryNativeCode` where there is only Node, after `before`. */
function tryIt(env: Readonly<Record<string, string>>, before = ''): Promise<Ended> {
  const program = `${before}
    const { tryNativeCode } = await import(${JSON.stringify(MODULE)});
    await tryNativeCode(${JSON.stringify(directory)});`;
  const bare = { PATH: join(directory, 'bin'), HOLDFAST_CACHE: join(directory, 'cache'), ...env };
  return new Promise((resolve) => {
    const words = ['--input-type=module', '--eval', program];
    execFile(process.execPath, words, { env: bare }, (error, _, stderr) =>
      resolve({ code: error?.code ?? 0, stderr }),
    );
  });
}

describe('where the native code cannot be compiled', () => {
  test('a line says so and why, and code of an older source is removed', async () => {
    const { code, stderr } = await tryIt({});
    expect(code).toBe(0);
    expect(stderr).toMatch(
      /the native code cannot be had, so saves will be SLOWER: Python 3\.9 or .* was not found/,
    );
    expect(older.filter((file) => existsSync(file))).toEqual([]);
  });

  test('it is an error if HOLDFAST_REQUIRE names it', async () => {
    const { code, stderr } = await tryIt({ HOLDFAST_REQUIRE: 'native' });
    expect(code).toBe(1);
    expect(stderr).toMatch(/HOLDFAST_REQUIRE names native, but Python 3\.9 or .* was not found/);
  });

  test('a machine that the compiler does not come for is named', async () => {
    const { code, stderr } = await tryIt({}, `Object.defineProperty(process, 'arch', { value: 'riscv64' });`);
    expect(code).toBe(0);
    expect(stderr).toContain('it is compiled on linux-x64 and linux-arm64 only, and this is linux-riscv64');
  });
});
