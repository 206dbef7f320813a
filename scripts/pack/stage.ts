/** Prepares each package as its tarball holds it. */

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { type Declarations, gatherDeclarations, needsNodeTypes, specifiersOf } from './declarations.ts';
import { type Exports, type Manifest, NODE_TYPES, publishedManifest } from './published-manifest.ts';
import { thirdPartyLicenses } from './third-party-licenses.ts';

export const REPOSITORY_URL = 'https://github.com/holdfast/holdfast';

/** `cli`, with what only it uses, is published as the command of `holdfast`. */
const UNPUBLISHED = new Set(['agent', 'cli', 'ui']);
/** Prepared separately, because its code is a bundle. */
const WHOLE = 'holdfast';

/** The folders of `packages`, each of which becomes one tarball. */
export function publishedFolders(root: string): string[] {
  return readdirSync(join(root, 'packages'))
    .filter((name) => existsSync(join(root, 'packages', name, 'package.json')) && !UNPUBLISHED.has(name))
    .sort();
}

export function readManifest(root: string, folder: string): Manifest {
  return JSON.parse(readFileSync(join(root, 'packages', folder, 'package.json'), 'utf8')) as Manifest;
}

/** Prepares the package of a folder in `target`. All packages must be built already. */
export function stagePackage(root: string, folder: string, target: string): void {
  const manifest = manifestOf(root, folder);
  for (const file of builtCode(join(root, 'packages', folder))) {
    const to = join(target, 'dist', file);
    mkdirSync(dirname(to), { recursive: true });
    cpSync(join(root, 'packages', folder, 'dist', file), to);
  }
  const native = join(root, 'packages', folder, 'native');
  if (existsSync(native)) cpSync(native, join(target, 'native'), { recursive: true });
  for (const [path, text] of publicDeclarations(root, folder, () => undefined))
    writeText(join(target, 'dist', path.slice(folder.length + 1)), text);
  writeTexts(root, folder, target, manifest);
}

/**
 * Files of `dist` whose source still exists. A build leaves the files of removed sources behind.
 */
function builtCode(home: string): string[] {
  return (readdirSync(join(home, 'dist'), { recursive: true }) as string[])
    .filter((file) => /\.js(\.map)?$/.test(file))
    .filter((file) => existsSync(join(home, 'src', file.replace(/\.js(\.map)?$/, '.ts'))))
    .sort();
}

/** The declarations that a user of the folder's package can reach. */
function publicDeclarations(
  root: string,
  folder: string,
  moduleOf: (specifier: string) => string | undefined,
): Declarations {
  const { exports = {} } = manifestOf(root, folder);
  const entries = Object.values(exports).map(({ types }) => declarationPath(folder, types as string));
  return gatherDeclarations(entries, declarationReader(root), moduleOf);
}

function writeText(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

/**
 * Prepares `holdfast`: the bundle of command and library in `bundle`, with the declarations of
 * every package whose types the library exposes. `inputs` are the files in the bundle.
 */
export function stageWhole(root: string, bundle: string, inputs: readonly string[], target: string): void {
  const manifest = manifestOf(root, WHOLE);
  mkdirSync(target, { recursive: true });
  cpSync(bundle, join(target, 'dist'), { recursive: true });
  cpSync(join(root, 'packages', WHOLE, 'bin'), join(target, 'bin'), { recursive: true });
  for (const [path, text] of publicDeclarations(root, WHOLE, moduleFinder(root)))
    writeText(join(target, 'types', path), text);
  writeTexts(root, WHOLE, target, {
    ...manifest,
    exports: wholeExports(manifest.exports as Exports),
  });
  writeFileSync(
    join(target, 'THIRD-PARTY-LICENSES.txt'),
    thirdPartyLicenses(join(root, 'packages', 'cli'), inputs),
  );
}

function wholeExports(exports: Exports): Exports {
  return Object.fromEntries(
    Object.entries(exports).map(([path, { types, default: code }]) => [
      path,
      {
        types: `./types/${declarationPath(WHOLE, types as string)}`,
        default: (code as string).replace(/\.js$/, '.mjs'),
      },
    ]),
  );
}

/** Turns `./dist/contract/index.d.ts` of the folder `core` into `core/contract/index.d.ts`. */
function declarationPath(folder: string, types: string): string {
  return posix.join(folder, types.replace(/^\.\/dist\//, ''));
}

function declarationReader(root: string): (path: string) => string {
  return (path) => {
    const [folder = '', ...rest] = path.split('/');
    return readFileSync(join(root, 'packages', folder, 'dist', ...rest), 'utf8');
  };
}

function moduleFinder(root: string): (specifier: string) => string | undefined {
  return (specifier) => {
    const [, folder, path] = /^@holdfast\/([^/]+)(\/.+)?$/.exec(specifier) ?? [];
    if (folder === undefined) return undefined;
    const types = readManifest(root, folder).exports?.[`.${path ?? ''}`]?.['types'];
    if (types === undefined) throw new Error(`${specifier} has no declarations`);
    return declarationPath(folder, types).replace(/\.d\.ts$/, '.js');
  };
}

function manifestOf(root: string, folder: string): Manifest {
  const installedVersion = (name: string) =>
    (
      JSON.parse(
        readFileSync(join(root, 'packages', folder, 'node_modules', name, 'package.json'), 'utf8'),
      ) as Manifest
    ).version;
  const origin = { url: REPOSITORY_URL, directory: `packages/${folder}` };
  return publishedManifest(readManifest(root, folder), origin, installedVersion);
}

function writeTexts(root: string, folder: string, target: string, manifest: Manifest): void {
  writeFileSync(join(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  cpSync(join(root, 'LICENSE'), join(target, 'LICENSE'));
  cpSync(join(root, 'packages', folder, 'README.md'), join(target, 'README.md'));
}

/** Throws if a prepared package contains anything that only works in the repository. */
export function assertSelfContained(target: string): void {
  const manifest = readFileSync(join(target, 'package.json'), 'utf8');
  if (/"(workspace|catalog|link|file):/.test(manifest))
    throw new Error(`${target}: a dependency of the repository`);
  const files = (readdirSync(target, { recursive: true }) as string[]).filter((file) =>
    file.endsWith('.d.ts'),
  );
  for (const file of files) {
    const text = readFileSync(join(target, file), 'utf8');
    if (needsNodeTypes(text) && !manifest.includes(`"${NODE_TYPES}"`))
      throw new Error(`${target}: ${file} needs ${NODE_TYPES}, which is no dependency`);
    for (const specifier of specifiersOf(text)) {
      if (specifier.startsWith('node:')) continue;
      const [name = ''] = /^(@[^/]+\/)?[^/]+/.exec(specifier) ?? [];
      if (!specifier.startsWith('.') && !manifest.includes(`"${name}"`))
        throw new Error(`${target}: ${file} imports ${specifier}, which is no dependency`);
      if (!specifier.startsWith('.')) continue;
      const module = posix.join(posix.dirname(file), specifier).replace(/\.js$/, '.d.ts');
      if (!existsSync(join(target, module)))
        throw new Error(`${target}: ${file} imports ${specifier}, which is missing`);
    }
  }
}
