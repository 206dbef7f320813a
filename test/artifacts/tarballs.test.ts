/**
 * Each tarball meets the expectations of registries and compilers, and contains nothing that
 * belongs only to the repository.
 */

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
// @boundaries-ignore packing decides what is in a map
import type { SourceMap } from '../../scripts/pack/bundle-maps.ts';
import {
  ENGINE_NATIVES,
  PACKAGES,
  type PackageJson,
  ROOT,
  readJson,
  type Scratch,
  scratch,
  tarball,
  VERSION,
} from './artifacts.ts';

/** The packages are ES modules only, for compilers that support `exports`. */
const NOT_FOR_COMMONJS = new Set(['NoResolution node10', 'CJSResolvesToESM node16-cjs']);

let place: Scratch;

beforeAll(async () => {
  place = await scratch();
});

afterAll(() => place.remove());

function unpacked(name: string): string {
  const directory = place.path(name);
  if (!existsSync(directory)) {
    mkdirSync(directory, { recursive: true });
    execFileSync('tar', ['-xzf', tarball(name), '-C', directory, '--strip-components=1']);
  }
  return directory;
}

function filesOf(name: string): string[] {
  return readdirSync(unpacked(name), { recursive: true }) as string[];
}

test('the engine has its native code for each machine, and its source', () => {
  const files = filesOf('@holdfast/core').filter((file) => file.startsWith('native/'));
  expect(files.sort()).toEqual([...ENGINE_NATIVES, 'crc32c.c'].sort().map((name) => `native/${name}`));
});

describe.each(PACKAGES)('%s', (name) => {
  test('says what it is, under what licence, and where it comes from', () => {
    const manifest = readJson<PackageJson>(join(unpacked(name), 'package.json'));
    expect(manifest).toMatchObject({
      name,
      version: VERSION,
      license: 'Apache-2.0',
      engines: { node: '>=22' },
    });
    expect(manifest.repository?.url).toMatch(/^git\+https:.*\.git$/);
    expect(filesOf(name)).toEqual(expect.arrayContaining(['LICENSE', 'README.md']));
  });

  test('has nothing that only the repository has', () => {
    const text = readFileSync(join(unpacked(name), 'package.json'), 'utf8');
    expect(text).not.toMatch(
      /workspace:|catalog:|holdfast-source|internal|"private"|"scripts"|devDependencies/,
    );
    expect(filesOf(name).filter((file) => /\.test\.|(^|\/)src\//.test(file))).toEqual([]);
  });

  test('says nothing of the machine that made it', () => {
    const files = filesOf(name).filter((file) => /\.([cm]?js|map|ts|json|md)$/.test(file));
    const telling = files.filter((file) => readFileSync(join(unpacked(name), file), 'utf8').includes(ROOT));
    expect(telling).toEqual([]);
  });

  test('its source maps have their sources', () => {
    const maps = filesOf(name).filter((each) => each.endsWith('.map'));
    expect(maps).not.toEqual([]);
    for (const file of maps) {
      const { sources, sourcesContent } = readJson<SourceMap>(join(unpacked(name), file));
      const missing = sources.filter((source, index) => {
        const isOwn = !source.includes('node_modules/');
        return isOwn && typeof sourcesContent[index] !== 'string';
      });
      expect([sourcesContent.length, missing], file).toEqual([sources.length, []]);
    }
  });

  test('publint finds nothing', async () => {
    const bytes = Uint8Array.from(readFileSync(tarball(name)));
    const { messages } = await publint({ pack: { tarball: bytes.buffer } });
    expect(messages).toEqual([]);
  });

  test('are-the-types-wrong finds nothing', async () => {
    const result = await checkPackage(
      createPackageFromTarballData(Uint8Array.from(readFileSync(tarball(name)))),
    );
    if (!result.types) throw new Error(`${name} has no types`);
    const found = result.problems.map((problem) =>
      'resolutionKind' in problem ? `${problem.kind} ${problem.resolutionKind}` : problem.kind,
    );
    expect(found.filter((problem) => !NOT_FOR_COMMONJS.has(problem))).toEqual([]);
  });
});

test('holdfast passes on the licences of what is bundled', () => {
  const text = readFileSync(join(unpacked('holdfast'), 'THIRD-PARTY-LICENSES.txt'), 'utf8');
  for (const name of ['@aws-sdk/core', '@azure/identity', 'google-auth-library', 'commander', 'p-limit'])
    expect(text).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+ \\(`, 'm'));
});
