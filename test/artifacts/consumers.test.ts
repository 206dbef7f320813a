/**
 * Projects outside the clone that use the packages: strict compilers, a bundler, the examples, and
 * a user's own store.
 */

import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { run } from '../e2e/holdfast-process.ts';
import {
  INSTALL_TIMEOUT_MS,
  installer,
  NODES,
  nodeProgram,
  PACKAGES,
  type PackageJson,
  ROOT,
  readJson,
  type Scratch,
  scratch,
  tarball,
} from './artifacts.ts';

const TSC = join(ROOT, 'node_modules', '.bin', 'tsc');

let place: Scratch;

beforeAll(async () => {
  place = await scratch();
  const dependencies = Object.fromEntries(PACKAGES.map((name) => [name, `file:${tarball(name)}`]));
  const manifest = { private: true, type: 'module', dependencies, pnpm: { overrides: dependencies } };
  await writeFile(place.path('package.json'), JSON.stringify(manifest));
  // A package sees only the dependencies that its manifest names. The types of Node must be visible
  // everywhere, so they are hoisted.
  const flags = ['--prefer-offline', '--ignore-scripts', '--config.hoist-pattern=@types/*'];
  await installer(['pnpm', 'install', ...flags], place.directory);
}, INSTALL_TIMEOUT_MS);

afterAll(() => place.remove());

/** Compiles the files of a directory. Resolves to the compiler's output. */
async function compile(directory: string, options: object, ...more: string[]): Promise<string> {
  const strict = { strict: true, skipLibCheck: false, noEmit: true, types: [] };
  await writeFile(
    join(directory, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: { ...strict, ...options }, include: ['*.ts'] }),
  );
  return (await run([TSC, '--project', directory, ...more], { cwd: directory })).stdout;
}

/**
 * Everything that a user can import. vitest is excluded, because users install it only if they need
 * it.
 */
function imports(): string[] {
  return PACKAGES.flatMap((name) => {
    const { exports } = readJson<PackageJson>(place.path('node_modules', name, 'package.json'));
    return Object.keys(exports).map((path) => `${name}${path.slice(1)}`);
  }).filter((name) => name !== '@holdfast/testkit/vitest');
}

test.each(NODES)('every import loads on Node %i with what its package depends on', async (major) => {
  const program = imports()
    .map((name) => `await import('${name}');`)
    .join('\n');
  const words = [nodeProgram(major), '--input-type=module', '--eval', program];
  expect(await run(words, { cwd: place.directory })).toEqual({ code: 0, stdout: '', stderr: '' });
});

const RESOLUTIONS = [
  { module: 'nodenext', moduleResolution: 'nodenext' },
  { module: 'preserve', moduleResolution: 'bundler' },
];

describe.each(RESOLUTIONS)('a strict compiler, $moduleResolution', (options) => {
  test('takes every import of every package, without types of Node', async () => {
    const directory = place.path(`imports-${options.moduleResolution}`);
    await mkdir(directory);
    const lines = imports().map(
      (name, index) => `import * as a${index} from '${name}';\nconsole.log(a${index});\n`,
    );
    await writeFile(join(directory, 'imports.ts'), lines.join(''));
    expect(await compile(directory, options)).toBe('');
  });

  test.each(['@holdfast/', 'holdfast'])(
    'takes the examples with %s, under the default lib',
    async (prefix) => {
      const directory = place.path(
        `examples-${options.moduleResolution}-${prefix === 'holdfast' ? 'one' : 'many'}`,
      );
      await mkdir(join(directory, 'node_modules', '@types'), { recursive: true });
      // The examples use Node themselves, so their user installs these types.
      const node = join(ROOT, 'node_modules', '@types', 'node');
      await symlink(node, join(directory, 'node_modules', '@types', 'node'));
      for (const file of readdirSync(join(ROOT, 'examples')).filter((name) => name.endsWith('.ts'))) {
        const text = readFileSync(join(ROOT, 'examples', file), 'utf8');
        const whole = text
          .replace(/'@holdfast\/(stores|core)'/g, "'holdfast'")
          .replaceAll("'@holdfast/", "'holdfast/");
        await writeFile(join(directory, file), prefix === 'holdfast' ? whole : text);
      }
      expect(await compile(directory, { ...options, types: ['node'] })).toBe('');
    },
  );
});

const ADAPTERS = [
  ['s3', 'openS3Store', 's3://bucket/x?endpoint=http://127.0.0.1:9&region=us-east-1'],
  ['gcs', 'openGcsStore', 'gs://bucket/x?endpoint=http://127.0.0.1:9'],
  [
    'azure',
    'openAzureStore',
    'az://devstoreaccount1/container/x?endpoint=http://127.0.0.1:9/devstoreaccount1',
  ],
  ['local', 'openLocalStore', 'file:///none'],
] as const;

/** The one that docs/install.md tells people to use. */
async function documentedBanner(): Promise<string> {
  const [, banner] = /--banner:js="([^"]+)"/.exec(await readFile('docs/install.md', 'utf8')) ?? [];
  return banner ?? '';
}

describe.each(ADAPTERS)('a bundle of store-%s', (name, open, uri) => {
  let bundle: string;

  beforeAll(async () => {
    const entry = place.path(`bundle-${name}.mjs`);
    const second =
      name === 'local'
        ? '{ crc32c }'
        : "{ AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b', AZURE_STORAGE_KEY: 'a2V5a2V5a2V5a2V5' }";
    await writeFile(
      entry,
      `import { crc32c } from '@holdfast/core';\nimport { ${open} } from '@holdfast/store-${name}';\n` +
        `const store = await ${open}(${JSON.stringify(uri)}, ${second});\nconsole.log(store.uri.split(':')[0], typeof crc32c);\nawait store.close();\n`,
    );
    bundle = place.path(`bundle-${name}.out.mjs`);
    await build({
      entryPoints: [entry],
      outfile: bundle,
      bundle: true,
      format: 'esm',
      platform: 'node',
      external: ['@napi-rs/blake-hash', '@node-rs/crc32'],
      banner: { js: await documentedBanner() },
      logLevel: 'silent',
    });
  });

  test.each(NODES)('opens on Node %i', async (major) => {
    const ended = await run([nodeProgram(major), bundle], { cwd: place.directory });
    expect(ended).toEqual({ code: 0, stdout: `${uri.split(':')[0]} function\n`, stderr: '' });
  });
});

test('a bundle starts no thread, whatever lies beside it, and saves without', async () => {
  const entry = place.path('threadless.mjs');
  await writeFile(
    entry,
    `import { createCheckpointManager } from '@holdfast/core';
import { openLocalStore } from '@holdfast/store-local';
const store = await openLocalStore('file://' + process.argv[2]);
const manager = createCheckpointManager({ store, settings: { workers: 1 } });
await manager.save({ version: 1, buffers: { a: new Uint8Array(1_000_000) } });
await manager.close();
console.log('saved');
`,
  );
  const bundle = place.path('threadless/bundle.js');
  await build({
    entryPoints: [entry],
    outfile: bundle,
    ...{ bundle: true, format: 'esm', platform: 'node', logLevel: 'silent' },
    external: ['@napi-rs/blake-hash', '@node-rs/crc32'],
    banner: { js: await documentedBanner() },
  });
  await writeFile(place.path('threadless/package.json'), '{ "type": "module" }');
  // A program of the user, which never answers as a worker would.
  await writeFile(place.path('threadless/thread.js'), `console.log('started'); setInterval(() => {}, 1e6);`);
  const ended = await run([nodeProgram(24), bundle, place.path('threadless/run')], { cwd: place.directory });
  expect(ended).toEqual({ code: 0, stdout: 'saved\n', stderr: '' });
});

describe('a store of a user', () => {
  beforeAll(async () => {
    const directory = place.path('store');
    await mkdir(join(directory, 'node_modules', '@types'), { recursive: true });
    await symlink(
      join(ROOT, 'node_modules', '@types', 'node'),
      join(directory, 'node_modules', '@types', 'node'),
    );
    for (const file of ['store/shelf-store.ts', 'store/conformance.ts'])
      cpSync(join(ROOT, 'test', 'artifacts', file), place.path(file));
    const emitting = { noEmit: false, rewriteRelativeImportExtensions: true };
    const options = { module: 'nodenext', types: ['node'], ...emitting };
    expect(await compile(directory, options)).toBe('');
  }, INSTALL_TIMEOUT_MS);

  test.each(NODES)('passes the conformance checks on Node %i', async (major) => {
    const words = [nodeProgram(major), '--test', '--test-reporter=spec', 'conformance.js'];
    const { code, stdout, stderr } = await run(words, { cwd: place.path('store') });
    expect(`${stdout}${stderr}`).toMatch(/^ℹ fail 0$/m);
    expect(Number(/^ℹ pass (\d+)$/m.exec(stdout)?.[1])).toBeGreaterThan(50);
    expect(code).toBe(0);
  });

  test('is a scheme of the installed command', async () => {
    const node = nodeProgram(24);
    const command = place.path('node_modules', 'holdfast', 'bin', 'holdfast.mjs');
    const module = place.path('store', 'shelf-store.js');
    await mkdir(place.path('model'));
    await writeFile(place.path('model', 'weights'), 'some weights');
    const holdfast = (...args: string[]) => run([node, command, ...args], { cwd: place.directory });
    const uri = `shelf://${place.path('shelf')}`;
    const saved = await holdfast('save', 'model', uri, '--version', '2', '--quiet', '--store-module', module);
    expect(saved).toEqual({ code: 0, stdout: '', stderr: '' });
    const env = { HOLDFAST_STORE_MODULE: 'store/shelf-store.js' };
    const latest = await run([node, command, 'latest', uri], { cwd: place.directory, env });
    expect(latest).toEqual({ code: 0, stdout: '2\n', stderr: '' });
    const same = await holdfast('latest', pathToFileURL(place.path('shelf')).href);
    expect(same.stdout).toBe('2\n');
  });
});
