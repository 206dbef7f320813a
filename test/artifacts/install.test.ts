/** The installed tarballs work outside the clone, with npm, pnpm and yarn. */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
// @boundaries-ignore the bootstrap decides how packages are fetched
import { fetchPackage } from '../../scripts/fetch-package.mjs';
import { run } from '../e2e/holdfast-process.ts';
import {
  INSTALL_TIMEOUT_MS,
  installer,
  NODES,
  nodeProgram,
  npm,
  OLD_NODES,
  ROOT,
  type Scratch,
  scratch,
  tarball,
  tarballsFor,
  VERSION,
} from './artifacts.ts';

const YARN = { name: 'yarn', version: '1.22.22' };

/** The first line of the error that an import throws. */
const TOO_OLD = /^CheckpointError: Holdfast needs Node 22 or newer; this is Node (18|20)\.[\d.]+$/m;

const MANUAL = readFileSync(join(ROOT, 'docs/install.md'), 'utf8');

let place: Scratch;

beforeAll(async () => {
  place = await scratch();
});

afterAll(() => place.remove());

describe('holdfast alone, by npm install -g', () => {
  let command: string;

  beforeAll(async () => {
    const prefix = place.path('global');
    await mkdir(prefix);
    await installer(npm('install', '--global', '--prefix', prefix, tarball('holdfast')), place.directory);
    command = join(prefix, 'bin', 'holdfast');
    await mkdir(place.path('model'));
    await writeFile(place.path('model', 'weights'), 'some weights');
  }, INSTALL_TIMEOUT_MS);

  test.each(NODES)('saves and restores on Node %i', async (major) => {
    const node = nodeProgram(major);
    const uri = pathToFileURL(place.path(`run-${major}`)).href;
    const holdfast = (...args: string[]) => run([node, command, ...args], { cwd: place.directory });
    expect(await holdfast('--version')).toMatchObject({
      code: 0,
      stdout: `holdfast ${VERSION}\n`,
      stderr: '',
    });
    expect(await holdfast('save', 'model', uri, '--version', '7', '--quiet')).toMatchObject({
      code: 0,
      stderr: '',
    });
    expect(await holdfast('latest', uri)).toMatchObject({ code: 0, stdout: '7\n' });
    const restored = await holdfast('restore', uri, `back-${major}`, '--quiet');
    expect(restored).toMatchObject({ code: 0, stderr: '' });
    expect(readdirSync(place.path(`back-${major}`))).toEqual(['weights']);
  });

  test.each(NODES)('is the library too, with every SDK, on Node %i', async (major) => {
    const program = place.path('global', 'lib', 'program.mjs');
    await writeFile(program, LIBRARY_PROGRAM);
    const env = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b', AZURE_STORAGE_KEY: 'a2V5a2V5a2V5a2V5' };
    expect(await run([nodeProgram(major), program], { env })).toEqual({
      code: 0,
      stdout: LIBRARY_SAID,
      stderr: '',
    });
  });

  test('a stack names sources', async () => {
    const program = place.path('global', 'lib', 'stack.mjs');
    const text =
      "import { parseVersion } from 'holdfast'; try { parseVersion('x'); } catch (e) { console.log(e.stack); }";
    await writeFile(program, text);
    const { stdout } = await run([nodeProgram(24), '--enable-source-maps', program]);
    const [, file = '', line] =
      /^ +at .*\/holdfast\/(packages\/core\/src\/\S+\.ts):(\d+):\d+\)?$/m.exec(stdout) ?? [];
    const source = readFileSync(join(ROOT, file), 'utf8').split('\n');
    expect(source[Number(line) - 1], stdout).toContain('new CheckpointError(');
  });

  test.each(OLD_NODES)(
    'Node %i is told in one sentence that it is too old, by the command and the library',
    async (major) => {
      const node = nodeProgram(major);
      const ended = await run([node, command, 'list', 'file:///none']);
      expect(ended).toMatchObject({ code: 126, stdout: '' });
      expect(ended.stderr).toMatch(
        /^holdfast: Node 22 or newer is needed; this is Node (18|20)\.[\d.]+, \/.*\n$/,
      );
      const program = place.path('global', 'lib', 'program.mjs');
      await writeFile(program, LIBRARY_PROGRAM);
      const refused = await run([node, program]);
      expect(refused).toMatchObject({ code: 1, stdout: '' });
      expect(refused.stderr).toMatch(TOO_OLD);
    },
  );

  test('another user runs it, without a home and where no cache can be written', async () => {
    const open = place.path('open');
    await mkdir(open);
    await chmod(open, 0o777);
    const asOther =
      process.getuid?.() === 0 ? ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups'] : [];
    const env = { HOME: '/nonexistent', TMPDIR: '/nonexistent', NODE_COMPILE_CACHE: '' };
    const words = [...asOther, nodeProgram(24), command];
    const uri = pathToFileURL(join(open, 'run')).href;
    const saved = await run([...words, 'save', place.path('model'), uri, '--quiet'], { env, cwd: open });
    expect(saved).toEqual({ code: 0, stdout: '', stderr: '' });
    const foreign = pathToFileURL('/usr/holdfast-run').href;
    const refused = await run([...words, 'save', place.path('model'), foreign], { env, cwd: open });
    expect(refused).toMatchObject({ code: 8, stdout: '' });
    expect(refused.stderr).toContain('permission denied (EACCES)');
  });
});

/** Opens a store of each kind without sending a request. */
const LIBRARY_PROGRAM = `
import { openStore, parseVersion } from 'holdfast';
import { decodeShard } from 'holdfast/elasticdl';
import { openTelemetryMeter } from 'holdfast/opentelemetry';
import { train } from 'holdfast/training';
for (const uri of [
  's3://bucket/x?endpoint=http://127.0.0.1:9&region=us-east-1',
  'gs://bucket/x?endpoint=http://127.0.0.1:9',
  'az://account/container/x?endpoint=http://127.0.0.1:9/account',
  'memory://x',
]) {
  const store = await openStore(uri);
  console.log(store.uri.split(':')[0], store.capabilities.maxDeleteKeys > 0);
  await store.close();
}
console.log(typeof parseVersion, typeof train, typeof decodeShard, typeof openTelemetryMeter);
`;

const LIBRARY_SAID = 's3 true\ngs true\naz true\nmemory true\nfunction function function function\n';

/** Saves and restores. It also uses adapters that are not installed and a custom one. */
const PROGRAM = `
import { openCheckpointManager, openStore, registerStore } from '@holdfast/stores';
const run = await openCheckpointManager(process.argv[2]);
await run.save({ buffers: { a: Uint8Array.of(1, 2, 3) } });
const back = new Uint8Array(3);
await run.restore({ to: { a: back } });
console.log(String(back));
for (const uri of ['s3://bucket/x', 'gs://bucket/x', 'az://account/container/x'])
  await openStore(uri).catch((error) => console.log(error.code, error.message));
registerStore('mine', { form: 'mine://name', open: () => openStore('memory://mine') });
const own = await openCheckpointManager('mine://name');
console.log(String((await own.save({ version: 5, buffers: { a: back } })).version));
await Promise.all([run.close(), own.close()]);
`;

const SAID = `1,2,3
Unsupported URIs of s3:// need the package @holdfast/store-s3 and its dependencies; install them with: npm install @holdfast/store-s3
Unsupported URIs of gs:// need the package @holdfast/store-gcs and its dependencies; install them with: npm install @holdfast/store-gcs
Unsupported URIs of az:// need the package @holdfast/store-azure and its dependencies; install them with: npm install @holdfast/store-azure
5
`;

interface Manager {
  readonly name: string;
  readonly manifest: (tarballs: Readonly<Record<string, string>>) => object;
  readonly words: () => string[];
}

const dependencies = (tarballs: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(tarballs).map(([name, path]) => [name, `file:${path}`]));

/** The tarballs that docs/install.md names for a package. */
function documented(folder: string): string[] {
  const line = new RegExp(`^npm install \\./artifacts/holdfast-\\{(${folder}\\b.*)\\}-(\\S+)\\.tgz`, 'm');
  const [, folders = '', version] = line.exec(MANUAL) ?? [];
  expect(version).toBe(VERSION);
  return folders.split(',').map((each) => tarball(`@holdfast/${each}`));
}

test.each(['store-s3', 'store-gcs', 'store-azure'])(
  'docs/install.md names all that %s depends on',
  (folder) => {
    const needed = Object.values(tarballsFor(`@holdfast/${folder}`));
    expect([...documented('stores'), ...documented(folder)]).toEqual(expect.arrayContaining(needed));
  },
);

const MANAGERS: readonly Manager[] = [
  {
    name: 'npm',
    manifest: () => ({}),
    words: () => npm('install', ...documented('stores')),
  },
  {
    name: 'pnpm',
    manifest: (tarballs) => ({
      dependencies: dependencies(tarballs),
      pnpm: { overrides: dependencies(tarballs) },
    }),
    words: () => ['pnpm', 'install', '--prefer-offline'],
  },
  {
    name: 'yarn',
    manifest: (tarballs) => ({ dependencies: dependencies(tarballs), resolutions: dependencies(tarballs) }),
    words: () => [
      process.execPath,
      join(fetchPackage(YARN, { say: () => undefined }), 'bin', 'yarn.js'),
      // A separate cache, because yarn identifies a cached tarball only by its version.
      ...['install', '--no-lockfile', '--non-interactive', '--cache-folder', place.path('yarn-cache')],
    ],
  },
];

describe.each(MANAGERS)(
  '@holdfast/stores, by $name from a directory of tarballs',
  ({ name, manifest, words }) => {
    let directory: string;

    beforeAll(async () => {
      directory = place.path(name);
      await mkdir(directory);
      const text = JSON.stringify({
        private: true,
        type: 'module',
        ...manifest(tarballsFor('@holdfast/stores')),
      });
      await writeFile(join(directory, 'package.json'), text);
      await writeFile(join(directory, 'program.mjs'), PROGRAM);
      await installer(words(), directory);
    }, INSTALL_TIMEOUT_MS);

    test('brings no SDK of a cloud', () => {
      for (const other of ['@aws-sdk', '@azure', 'google-auth-library', '@smithy'])
        expect(existsSync(join(directory, 'node_modules', other)), other).toBe(false);
    });

    test.each(OLD_NODES)('Node %i is told in one sentence that it is too old', async (major) => {
      const ended = await run([nodeProgram(major), 'program.mjs', 'memory://old'], { cwd: directory });
      expect(ended).toMatchObject({ code: 1, stdout: '' });
      expect(ended.stderr).toMatch(TOO_OLD);
    });

    test.each(NODES)(
      'works on Node %i, and names the package of a store that is not installed',
      async (major) => {
        const uri = pathToFileURL(join(directory, `run-${major}`)).href;
        const ended = await run([nodeProgram(major), 'program.mjs', uri], { cwd: directory });
        expect(ended).toEqual({ code: 0, stdout: SAID, stderr: '' });
      },
    );
  },
);
