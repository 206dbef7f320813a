import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { deadLinks, invariantsWithoutTest, leftovers, registryHosts } from './tidy/documents.ts';
import {
  adaptersWithOtherFiles,
  emptyNames,
  filesNothingImports,
  foldersNotKebabCase,
  impureFiles,
  unpublishable,
} from './tidy/files.ts';
import { forbiddenImports } from './tidy/imports.ts';
import { namesOfTwoThings } from './tidy/names.ts';
import { hardComments, hardDocuments, hardStrings } from './tidy/prose.ts';
import { ROOT, type Rule, readRepository } from './tidy/repository.ts';
import { crowdedRooms, importsAgainstTheOrder } from './tidy/rooms.ts';

type Sample = Readonly<Record<string, string>>;

interface Case {
  readonly name: string;
  readonly rule: Rule;
  /** Each of these must be found. */
  readonly bad: readonly Sample[];
  /** The rule finds nothing in these. */
  readonly good: readonly Sample[];
}

const CONTRACT = 'packages/core/src/contract';
const FORMAT = 'packages/core/src/format';
const ADAPTER = ['index', 'config', 'store', 'upload', 'errors'];
const OVER_HTTP = "import { CloudStore } from '@holdfast/cloud-http';";
const LEFTOVER = ['TO', 'DO'].join('');

const CASES: readonly Case[] = [
  {
    name: 'imports: each place imports only what its row allows',
    rule: forbiddenImports,
    bad: [
      { 'packages/core/src/manager/a.ts': "import fs from 'node:fs';" },
      { 'packages/core/src/manager/a.ts': "import type { B } from '@holdfast/wire';" },
      { 'packages/core/src/manager/a.ts': "import {\n  a,\n} from 'p-limit';" },
      { [`${FORMAT}/keys.ts`]: "import { createHash } from 'node:crypto';" },
      { 'packages/core/src/contract/a.ts': "import 'node:stream';" },
      { 'packages/core/src/index.ts': "export * from '@holdfast/stores';" },
      { 'packages/store-local/src/store.ts': "import { a } from '@holdfast/core';" },
      { 'packages/core/src/a.ts': "import { a } from '../../wire/src/index.ts';" },
      { 'packages/core/src/a.test.ts': "import { a } from '../../wire/src/index.ts';" },
      { 'packages/cli/src/a.ts': "const a = await import('@holdfast/store-local');" },
      { 'packages/unheard-of/src/a.ts': "import 'node:fs';" },
    ],
    good: [
      { [`${FORMAT}/checksum.ts`]: "import { createHash } from 'node:crypto';" },
      { [`${FORMAT}/manifest.ts`]: "import type { Manifest } from '@holdfast/wire';" },
      { 'packages/core/src/transfer/a.ts': "import pLimit from 'p-limit';" },
      { 'packages/core/src/manager/a.ts': "// import fs from 'node:fs';\nimport { a } from './b.ts';" },
      { 'packages/core/src/manager/a.test.ts': "import { test } from 'vitest';" },
      { 'packages/stores/src/a.ts': "const a = () => import('@holdfast/store-local');" },
      { 'packages/cli/src/a.ts': "import { Command } from 'commander';" },
    ],
  },
  {
    name: 'order: core imports one way, types included',
    rule: importsAgainstTheOrder,
    bad: [
      { [`${CONTRACT}/a.ts`]: "export { a } from '../format/b.ts';" },
      { [`${FORMAT}/a.ts`]: "import type { A } from '../plan/b.ts';" },
      { 'packages/core/src/plan/a.ts': "import { a } from '../transfer/b.ts';" },
      { 'packages/core/src/transfer/a.ts': "import type { A } from '../manager/b.ts';" },
      { 'packages/core/src/manager/a.ts': "import { a } from '../store/b.ts';" },
      { 'packages/core/src/manager/run/a.ts': "import type { A } from '../../store/b.ts';" },
      { 'packages/core/src/manager/a.ts': "import { a } from '../election/b.ts';" },
      { 'packages/core/src/store/a.ts': "import { a } from '../format/b.ts';" },
      { 'packages/core/src/manager/run/a.ts': "import type { A } from '../read/index.ts';" },
      { 'packages/core/src/manager/keep/a.ts': "import type { A } from '../manager.ts';" },
      { 'packages/core/src/manager/read/a.ts': "import type { A } from '../run/b.ts';" },
      { 'packages/core/src/manager/a.ts': "import type { A } from './run/b.ts';" },
      { 'packages/core/src/index.ts': "export { a } from './manager/run/b.ts';" },
    ],
    good: [
      { 'packages/core/src/manager/read/a.ts': "import type { A } from '../run/index.ts';" },
      { 'packages/core/src/manager/a.ts': "import { a } from './run/index.ts';" },
      { 'packages/core/src/manager/run/a.ts': "import { a } from '../../plan/b.ts';" },
      { 'packages/core/src/manager/run/a.test.ts': "import { a } from '../read/b.ts';" },
      { 'packages/core/src/store/a.ts': "import { a } from '../contract/b.ts';" },
      { 'packages/core/src/index.ts': "export { a } from './manager/run/index.ts';" },
    ],
  },
  {
    name: 'order: a room has at most twelve files',
    rule: crowdedRooms,
    bad: [
      Object.fromEntries(Array.from({ length: 13 }, (_, i) => [`packages/core/src/manager/run/${i}.ts`, ''])),
    ],
    good: [
      Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`packages/core/src/manager/run/${i}.ts`, ''])),
      { 'packages/core/src/manager/run/index.ts': '' },
    ],
  },
  {
    name: 'names: an exported name of a package stands for one thing',
    rule: namesOfTwoThings,
    bad: [
      { 'packages/a/src/b.ts': 'export interface Place {}', 'packages/a/src/c.ts': 'export type Place = 1;' },
      { 'packages/a/src/b.ts': 'export async function f() {}', 'packages/a/src/c.ts': 'export const f = 1;' },
    ],
    good: [
      { 'packages/a/src/b.ts': 'export interface Place {}', 'packages/b/src/b.ts': 'export class Place {}' },
      { 'packages/a/src/b.ts': 'export class Place {}', 'packages/a/src/c.ts': 'interface Place {}' },
      { 'packages/a/src/b.ts': 'export function f(a: 1): 1;\nexport function f(a: 2): 2;' },
      {
        'packages/a/src/b.ts': 'export class Place {}',
        'packages/a/src/c.ts': "export { Place } from './b.ts';",
      },
    ],
  },
  {
    name: 'names: no utils, helpers, common, misc',
    rule: emptyNames,
    bad: [
      { 'packages/core/src/utils.ts': '' },
      { 'test/helpers/a.ts': '' },
      { 'test/string-utils.test.ts': '' },
    ],
    good: [{ 'packages/cli/src/common-options.ts': '', 'proto/common.proto': '' }],
  },
  {
    name: 'names: folders are in kebab-case',
    rule: foldersNotKebabCase,
    bad: [{ 'packages/core/src/ByteBudget/a.ts': '' }, { 'packages/core/src/byte_budget/a.ts': '' }],
    good: [{ 'packages/core/src/byte-budget/a.ts': '' }],
  },
  {
    name: 'adapters: the same file for the same job',
    rule: adaptersWithOtherFiles,
    bad: [
      { 'packages/store-local/src/index.ts': '' },
      Object.fromEntries(ADAPTER.map((name) => [`packages/store-s3/src/${name}.ts`, OVER_HTTP])),
    ],
    good: [Object.fromEntries(ADAPTER.map((name) => [`packages/store-tape/src/${name}.ts`, '']))],
  },
  {
    name: 'files: each is needed by more than its own test',
    rule: filesNothingImports,
    bad: [
      { 'packages/core/src/dead.ts': '' },
      { 'packages/core/src/a.ts': '', 'packages/core/src/a.test.ts': "import './a.ts';" },
      { 'packages/core/src/self.ts': "import './self.ts';" },
    ],
    good: [
      {
        'packages/core/package.json': '{ "exports": "./src/index.ts" }',
        'packages/core/src/index.ts': "export * from './a.ts';",
        'packages/core/src/a.ts': '',
      },
      {
        'packages/cli/build.mjs': "['src/main.ts']",
        'packages/cli/src/main.ts': '',
        'bin/holdfast': 'cli/build.mjs packages/cli/build.mjs',
      },
      { 'test/race.test.ts': "new URL('./race/writer.ts', import.meta.url)", 'test/race/writer.ts': '' },
      { 'package.json': '"demo": "node examples/demo/main.ts"', 'examples/demo/main.ts': '' },
    ],
  },
  {
    name: 'comments: plain openers, no pronouns for things, 100 columns',
    rule: hardComments,
    bad: [
      { [`${CONTRACT}/a.ts`]: '/** Of the first byte. */' },
      { [`${CONTRACT}/a.ts`]: '// It is read.\n// Whoever reads it waits.' },
      { [`${CONTRACT}/a.ts`]: '/**\n * It is read.\n *\n * None of it is kept.\n */' },
      { [`${CONTRACT}/a.ts`]: '// A lock that nobody holds.' },
      { [`${CONTRACT}/a.ts`]: `a(); // ${'x'.repeat(100)}` },
    ],
    good: [
      { [`${CONTRACT}/a.ts`]: '/** The first byte. Offset of it. */' },
      { [`${CONTRACT}/a.ts`]: '// The number\n// Of bytes.' },
      { [`${CONTRACT}/a.ts`]: "const nobody = 'Of nobody';" },
      { 'elsewhere/a.ts': '/** Of nobody. */' },
    ],
  },
  {
    name: 'documents: plain openers, no pronouns for things',
    rule: hardDocuments,
    bad: [
      { 'README.md': 'It is read.\nWhoever reads it waits.' },
      { 'README.md': '- It is read.\n- **Of each file**, one part.' },
      { 'README.md': '1. _None_ is kept.' },
      { 'docs/a.md': 'A lock that\nnobody holds.' },
      { 'docs/a.md': '| lock | [nobody](a.md) holds it |' },
      { 'docs/a.md': '## Whoever waits' },
      { 'docs/a.md': '```sh\ntrue\n```\n\nWhere it fails, stop.' },
    ],
    good: [
      { 'README.md': 'The number\nOf bytes. A list of it.' },
      { 'README.md': '## Where it is\n\n| What is read | Of each file |\n|---|---|\n| None | it |' },
      { 'README.md': '```sh\nOf nobody\n```\n\nDo not write `nobody`: [a](nobody.md).' },
      { 'a.txt': 'Of nobody.' },
    ],
  },
  {
    name: 'messages and names of tests: no pronouns for things',
    rule: hardStrings,
    bad: [
      { 'packages/cli/src/a.ts': "throw new Error('nobody answers');" },
      { 'packages/cli/src/a.ts': 'const help =\n  `ask whoever owns it`;' },
      { 'packages/cli/src/a.ts': 'log("a key that is none");' },
      { 'packages/cli/src/a.test.ts': "it('is read by somebody', f);" },
      { 'test/a.test.ts': "describe.each(CASES)(\n  '$name: nobody waits', f);" },
      { 'test/cloud/a.ts': 'test.each(CASES)(`of many nobody wins`, f);' },
      { 'test/a.test.ts': "test('of many one wins', f);" },
      { 'test/a.test.ts': 'test(`a race; who loses waits`, f);' },
    ],
    good: [
      { 'packages/cli/src/a.ts': "log('there is none'); // nobody" },
      { 'packages/cli/src/a.test.ts': "it('is read', () => say('nobody'));" },
      { 'packages/cli/src/a.ts': "log('of this machine');" },
      { 'test/a.test.ts': "test('one of many wins', f);" },
      { 'elsewhere/a.ts': "log('nobody');" },
    ],
  },
  {
    name: 'format and plan: no async, no clock, no chance',
    rule: impureFiles,
    bad: [
      { [`${FORMAT}/a.ts`]: 'export async function a() {}' },
      { 'packages/core/src/plan/a.ts': 'const now = Date.now();' },
      { 'packages/core/src/plan/a.ts': 'const now = new Date();' },
      { 'packages/core/src/plan/a.ts': 'const r = Math.random();' },
    ],
    good: [
      {
        [`${FORMAT}/a.ts`]:
          '// async\nconst text = `Math.random()`; const at = new Date(timeMs).toISOString();',
      },
      {
        'packages/core/src/transfer/a.ts': 'async () => Date.now()',
        [`${FORMAT}/a.test.ts`]: 'await Math.random()',
      },
    ],
  },
  {
    name: 'docs/format.md: each invariant is in the name of a test',
    rule: invariantsWithoutTest,
    bad: [
      { [`${FORMAT}/a.ts`]: '' },
      { 'docs/format.md': 'no invariant' },
      { 'docs/format.md': 'I1 and I11', 'packages/core/src/a.test.ts': "test('I1: …', f); // I11" },
    ],
    good: [{ 'docs/format.md': 'I1', 'test/crash.test.ts': "test('I1: nothing missing', f);" }, {}],
  },
  {
    name: 'documents: no dead relative link',
    rule: (repository) =>
      deadLinks(repository, (path) => !/^docs\/|^gone/.test(path) && existsSync(join(ROOT, path))),
    bad: [{ 'README.md': '[a](gone.md)' }, { 'docs/a.md': '[a](b.md#x)' }],
    good: [
      {
        'docs/a.md': '[a](../README.md#x) [b](#here) [c](https://example.org) `[d](e)`',
        'README.md': '[docs](docs/)',
      },
    ],
  },
  {
    name: 'comments: nothing left to do',
    rule: leftovers,
    bad: [{ 'a.ts': `// ${LEFTOVER}: later` }],
    good: [{ 'a.ts': '// done' }],
  },
  {
    name: 'packages: one version, a README, and none that is published by accident',
    rule: unpublishable,
    bad: [
      { 'packages/a/package.json': '{"version":"1.0.0","private":true}' },
      { 'packages/a/package.json': '{"version":"1.0.0"}', 'packages/a/README.md': '' },
      {
        'packages/a/package.json': '{"version":"1.0.0","private":true}',
        'packages/a/README.md': '',
        'packages/b/package.json': '{"version":"1.0.1","private":true}',
        'packages/b/README.md': '',
      },
    ],
    good: [
      { 'packages/cli/package.json': '{"version":"1.0.0","private":true}' },
      { 'packages/a/package.json': '{"version":"1.0.0","private":true}', 'packages/a/README.md': '' },
    ],
  },
  {
    name: 'no registry host is committed',
    rule: registryHosts,
    bad: [{ 'pnpm-lock.yaml': 'tarball: https://example.org/a.tgz' }, { '.npmrc': 'registry=example.org' }],
    good: [{ 'pnpm-lock.yaml': 'resolution: {integrity: sha512-…}', '.npmrc': 'engine-strict=true' }],
  },
];

const repository = readRepository();

describe.each(CASES)('tidy: $name', ({ rule, bad, good }) => {
  test('holds', () => {
    expect(rule(repository)).toEqual([]);
  });

  test('finds what is wrong and nothing else', () => {
    for (const sample of bad)
      expect(rule(new Map(Object.entries(sample))), JSON.stringify(sample)).not.toEqual([]);
    for (const sample of good)
      expect(rule(new Map(Object.entries(sample))), JSON.stringify(sample)).toEqual([]);
  });
});

test('tidy: the programs that a person runs are executable', () => {
  const modes = execFileSync('git', ['ls-files', '--stage', 'bin', '.ci'], { cwd: ROOT, encoding: 'utf8' });
  expect(
    modes
      .trim()
      .split('\n')
      .map((line) => line.slice(0, 6)),
  ).toEqual(['100755', '100755']);
});
