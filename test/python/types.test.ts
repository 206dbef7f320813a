/**
 * The types of the Python client, by mypy and by pyright. Plugins are not checked: they need their
 * frameworks, and minutes (docs/testing.md).
 */

import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { run } from '../e2e/holdfast-process.ts';
import { testConfig } from '../servers/config.ts';
import { pythonProgram } from './python-program.ts';
import { describeWithPython } from './run-python.ts';
import { PYTHON_ROOT } from './unittest-runner.ts';

const PLUGINS = ['composer', 'deepspeed', 'fsspec', 'hf', 'lightning', 'ray', 'torch'];
const PYRIGHT = join(dirname(createRequire(import.meta.url).resolve('pyright/package.json')), 'index.js');
const TIMEOUT_MS = 120_000;
const WRONG = 'def length(text: str) -> int:\n    return text\n';

describeWithPython('types of the Python client', () => {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-types-'));
  const wrong = join(directory, 'wrong.py');
  writeFileSync(wrong, WRONG);
  afterAll(() => rm(directory, { recursive: true, force: true }));

  const mypy = async (...words: readonly string[]) => {
    const config = join(PYTHON_ROOT, 'pyproject.toml');
    const cache = join(directory, 'mypy');
    return run([
      await pythonProgram(),
      '-m',
      'mypy',
      '--config-file',
      config,
      '--cache-dir',
      cache,
      ...words,
    ]);
  };

  test('mypy finds no mistake in the client and its tests, and finds one elsewhere', {
    timeout: TIMEOUT_MS,
  }, async ({ skip }) => {
    const isRequired = testConfig(process.env).requiredSuites.has('python');
    const found = await mypy('--version');
    if (found.code !== 0 && !isRequired) skip('mypy needs Python 3.10 or newer');
    const excluded = [`/holdfast/(${PLUGINS.join('|')})/`, '/tests/(hf|torch|frameworks)/'];
    const options = excluded.flatMap((pattern) => ['--exclude', pattern]);
    const places = ['holdfast', 'tests'].map((name) => join(PYTHON_ROOT, name));
    expect(await mypy(...options, ...places)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^Success: no issues found in \d{2,} source files\n$/),
    });
    expect(await mypy(wrong)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('Incompatible return'),
    });
  });

  test('pyright finds no mistake in the client, and finds one elsewhere', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const settings = readFileSync(join(PYTHON_ROOT, 'pyproject.toml'), 'utf8').split('[tool.pyright]')[1];
    const setting = (name: string) => new RegExp(`^${name} = "(.+)"$`, 'm').exec(settings ?? '')?.[1];
    const client = join(relative(directory, PYTHON_ROOT), 'holdfast');
    const config = {
      include: [client, 'wrong.py'],
      exclude: PLUGINS.map((name) => join(client, name)),
      extraPaths: [PYTHON_ROOT],
      typeCheckingMode: setting('typeCheckingMode'),
      pythonVersion: setting('pythonVersion'),
      // PyTorch is not installed here.
      reportMissingImports: 'none',
    };
    expect(config).toMatchObject({ typeCheckingMode: 'standard', pythonVersion: '3.9' });
    writeFileSync(join(directory, 'pyrightconfig.json'), JSON.stringify(config));
    const words = [PYRIGHT, '-p', directory, '--pythonpath', await pythonProgram(), '--outputjson'];
    const { stdout } = await run([process.execPath, ...words]);
    const told = JSON.parse(stdout) as { generalDiagnostics: object[]; summary: { filesAnalyzed: number } };
    expect(told.summary.filesAnalyzed).toBeGreaterThan(50);
    expect(told.generalDiagnostics).toMatchObject([{ file: wrong, rule: 'reportReturnType' }]);
  });
});
