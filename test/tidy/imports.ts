/**
 * Which packages may import which modules. The order of the folders inside core is in rooms.ts.
 */

import { isCode, isTest, packageFolder, type Repository, resolveFrom } from './repository.ts';
import { importsOf } from './syntax.ts';

const ANY_NODE = 'node:*';
const CORE = ['@holdfast/core', '@holdfast/core/contract', '@holdfast/core/store'];
const OF_CLOUD_STORE = ['@holdfast/core/contract', '@holdfast/cloud-http', ANY_NODE];

/**
 * A path, and what it may import besides its own package. The longest path that matches a file
 * decides.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  'packages/wire/src/': [],
  'packages/wire/scripts/': ['protobufjs', ANY_NODE],

  // Callers pass in sources, so core opens no file. Core knows no provider and no network.
  'packages/core/src/': ['node:assert', 'node:async_hooks', 'node:events', 'node:stream', 'node:stream/web'],
  'packages/core/src/contract/': [],
  'packages/core/src/format/': ['@holdfast/wire'],
  'packages/core/src/format/checksum.ts': [
    '@napi-rs/blake-hash',
    '@node-rs/crc32',
    'node:crypto',
    'node:module',
    'node:zlib',
  ],
  'packages/core/src/plan/': ['picomatch'],
  'packages/core/src/transfer/': ['p-limit', 'node:stream'],
  'packages/core/src/workers/': ['node:os', 'node:worker_threads'],

  // An adapter depends on the contract, not on the engine.
  'packages/local-files/src/': ['@holdfast/core/contract', ANY_NODE],
  'packages/direct-http/src/': ['node:module', 'node:net', 'node:tls'],
  'packages/cloud-http/src/': ['@holdfast/core/contract', '@holdfast/direct-http', ANY_NODE],
  'packages/store-s3/src/': [...OF_CLOUD_STORE, '@aws-sdk/credential-provider-*'],
  'packages/store-gcs/src/': [...OF_CLOUD_STORE, 'google-auth-library'],
  'packages/store-azure/src/': [...OF_CLOUD_STORE, '@azure/*'],
  'packages/store-local/src/': ['@holdfast/core/contract', '@holdfast/local-files', ANY_NODE],
  'packages/stores/src/': [
    ...CORE,
    '@holdfast/local-files',
    '@holdfast/store-*',
    'node:os',
    'node:path',
    'node:url',
  ],

  'packages/elasticdl/src/': [
    ...CORE,
    '@holdfast/local-files',
    '@holdfast/wire/elasticdl',
    'node:crypto',
    'node:path',
  ],
  // Ids that do not fit into memory are kept in a file.
  'packages/elasticdl/src/scatter/id-spool.ts': [
    '@holdfast/core/contract',
    '@holdfast/local-files',
    'node:fs',
    'node:os',
    'node:path',
  ],

  'packages/training/src/': [...CORE, '@holdfast/local-files', ANY_NODE],

  'packages/agent/src/': [
    ...CORE,
    '@holdfast/elasticdl',
    '@holdfast/local-files',
    '@holdfast/stores',
    '@holdfast/training',
    'p-limit',
    'zod',
    ANY_NODE,
  ],

  'packages/fleet/src/': [...CORE, '@holdfast/stores'],
  'packages/opentelemetry/src/': ['@holdfast/core/contract'],

  'packages/ui/src/': [...CORE, '@holdfast/agent', '@holdfast/fleet', ANY_NODE],
  // What runs in the browser.
  'packages/ui/page/': ['preact', 'preact/hooks'],
  'packages/ui/build.mjs': ['esbuild', ANY_NODE],

  'packages/testkit/src/': [...CORE, 'vitest', ANY_NODE],
  // The library in one package: it only exports the other packages.
  'packages/holdfast/': [
    '@holdfast/core',
    '@holdfast/stores',
    '@holdfast/training',
    '@holdfast/elasticdl',
    '@holdfast/opentelemetry',
  ],
  'packages/cli/': [
    ...CORE,
    '@holdfast/agent',
    '@holdfast/elasticdl',
    '@holdfast/fleet',
    '@holdfast/local-files',
    '@holdfast/stores',
    '@holdfast/testkit',
    '@holdfast/training',
    '@holdfast/ui',
    '@holdfast/ui/build',
    '@holdfast/wire',
    ANY_NODE,
    'npm:*',
  ],
  'test/': ['*'],
  // Code that a user can write: it uses only public exports.
  'examples/': [...CORE, '@holdfast/elasticdl', '@holdfast/stores', '@holdfast/training', ANY_NODE, 'npm:*'],
  'scripts/': [ANY_NODE, 'vitest', 'vitest/node'],
  'vitest.config.ts': ['node:os', 'vitest/config'],
};

const PLACES = Object.keys(MAY_IMPORT).sort((a, b) => b.length - a.length);

function fits(specifier: string, pattern: string): boolean {
  if (pattern === 'npm:*') return !specifier.startsWith('@holdfast/') && !specifier.startsWith('node:');
  if (pattern.endsWith('*')) return specifier.startsWith(pattern.slice(0, -1));
  return specifier === pattern;
}

function forbiddenImport(path: string, specifier: string): string | undefined {
  if (specifier.startsWith('.')) {
    const home = packageFolder(path);
    const leaves = home !== undefined && !resolveFrom(path, specifier).startsWith(`${home}/`);
    return leaves ? `${path}: "${specifier}" leaves the package; import the package by its name` : undefined;
  }
  if (isTest(path)) return undefined;
  const place = PLACES.find((candidate) => path.startsWith(candidate));
  if (place === undefined) return `${path}: its place has no row in test/tidy/imports.ts; add one`;
  const allowed = MAY_IMPORT[place] ?? [];
  if (allowed.some((pattern) => fits(specifier, pattern))) return undefined;
  return `${path}: must not import "${specifier}"; ${place} may import ${allowed.join(', ') || 'nothing'}`;
}

export function forbiddenImports(repository: Repository): string[] {
  return [...repository]
    .filter(([path]) => isCode(path))
    .flatMap(([path, text]) => importsOf(text).map((specifier) => forbiddenImport(path, specifier)))
    .filter((finding) => finding !== undefined);
}
