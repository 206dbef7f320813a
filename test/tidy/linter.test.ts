/**
 * The rules of biome.json that the project depends on. Each is tested with a file that breaks it.
 */

import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { ROOT } from './repository.ts';

const CORE = 'packages/core/src';
const LONG_FUNCTION = `export function f(): number[] {\nconst a = [\n${'  1,\n'.repeat(71)}];\nreturn a;\n}\n`;
const TEST = "import { test } from 'vitest';\n";

/** Path, text, and the rule that must find the fault. */
const BROKEN: readonly (readonly [string, string, string])[] = [
  [`${CORE}/cycle-a.ts`, "export { a } from './cycle-b.ts';", 'noImportCycles'],
  [`${CORE}/cycle-b.ts`, "export { b } from './cycle-a.ts';", 'noImportCycles'],
  [
    `${CORE}/type-cycle-a.ts`,
    "import type { B } from './type-cycle-b.ts';\nexport type A = B;",
    'noImportCycles',
  ],
  [`${CORE}/type-cycle-b.ts`, "export type { A as B } from './type-cycle-a.ts';", 'noImportCycles'],
  [`${CORE}/environment.ts`, 'export const a = process.env;', 'noProcessEnv'],
  [`${CORE}/long-function.ts`, LONG_FUNCTION, 'noExcessiveLinesPerFunction'],
  [`${CORE}/long-file.ts`, 'export {};\n'.repeat(501), 'noExcessiveLinesPerFile'],
  [`${CORE}/byteBudget.ts`, 'export {};', 'useFilenamingConvention'],
  [`${CORE}/undeclared.ts`, "import 'commander';", 'noUndeclaredDependencies'],
  [`${CORE}/floating.ts`, 'async function f(): Promise<void> {}\nf();', 'noFloatingPromises'],
  [`${CORE}/focused.test.ts`, `${TEST}test.only('a', () => f());`, 'noFocusedTests'],
  [`${CORE}/skipped.test.ts`, `${TEST}test.skip('a', () => f());`, 'noSkippedTests'],
];

const SOUND: readonly (readonly [string, string])[] = [
  [`${CORE}/index.ts`, "export { a } from './store/b.ts';\n"],
  [`${CORE}/manager/a.test.ts`, "export { a } from '../store/b.ts';\n"],
  [`${CORE}/manager/b.ts`, "export { a } from '../transfer/b.ts';\n"],
  ['packages/store-local/src/config.ts', 'export const a = process.env;\n'],
];

const directory = mkdtempSync(join(tmpdir(), 'holdfast-lint-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

interface Diagnostic {
  readonly category: string;
  readonly location: { readonly path: string | { readonly file: string } };
}

/** Names of the rules that fired, by file. One run of the linter checks all samples. */
function lintSamples(): Map<string, string[]> {
  for (const path of ['biome.json', 'packages/core/package.json'])
    cpSync(join(ROOT, path), join(directory, path));
  for (const [path, text] of [...BROKEN, ...SOUND]) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
  const args = ['lint', '--vcs-enabled=false', '--reporter=json', '--max-diagnostics=none'];
  const { stdout } = spawnSync('biome', args, { cwd: directory, encoding: 'utf8' });
  const report = JSON.parse(stdout) as { diagnostics: Diagnostic[] };
  const found = new Map<string, string[]>();
  for (const { category, location } of report.diagnostics) {
    const path = typeof location.path === 'string' ? location.path : location.path.file;
    found.set(path, [...(found.get(path) ?? []), category.replace(/^lint\/\w+\//, '')]);
  }
  return found;
}

const found = lintSamples();

test.each(BROKEN)('tidy: the linter finds what is wrong in %s', (path, _text, rule) => {
  expect(found.get(path)).toContain(rule);
});

test.each(SOUND)('tidy: the linter finds nothing in %s', (path) => {
  expect(found.get(path)).toBeUndefined();
});
