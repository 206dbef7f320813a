/**
 * Modules that load when the command line starts and when it opens a store. No command may load an
 * SDK that it does not need.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ADAPTERS } from '../bench/adapters/adapters.ts';
import { type DiscardServer, startDiscardServer } from '../bench/discard/process.ts';
import { type Ended, holdfast, newPlace, run } from './holdfast-process.ts';
import { type LoadedModules, loadedModules } from './loaded-modules.ts';

const TEST = fileURLToPath(new URL('..', import.meta.url));
const NOT_FOUND = 6;

async function loadedBy(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  let ended: Ended | undefined;
  const modules = await loadedModules(async (hook) => {
    ended = await holdfast(args, { env: { ...env, ...hook } });
  });
  return { modules, ended };
}

describe('idle', () => {
  test.each([[['--version']], [['--help']], [['save', '--help']], [['completion', 'bash']]])(
    '%j: no store is loaded and no SDK',
    async (args) => {
      const { modules, ended } = await loadedBy(args);
      expect(ended?.code).toBe(0);
      expect(modules).toMatchObject({ stores: [], sdks: [] });
    },
  );

  test.each(['@holdfast/core', '@holdfast/stores'])(
    'import of %s: no store is loaded and no SDK',
    async (name) => {
      const words = ['--conditions=holdfast-source', '--input-type=module', '--eval', `import '${name}'`];
      let ended: Ended | undefined;
      const modules = await loadedModules(async (env) => {
        ended = await run([process.execPath, ...words], { env, cwd: TEST });
      });
      expect(ended).toMatchObject({ code: 0, stderr: '' });
      expect(modules).toMatchObject({ stores: [], sdks: [] });
    },
  );
});

describe('opening one store loads only its own SDK', () => {
  let directory: string;

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'holdfast-start-'));
    writeFileSync(join(directory, 'pattern'), 'none of these stores is read');
  });

  afterAll(() => rmSync(directory, { recursive: true }));

  /** Runs a complete command, so that modules loaded late are included. */
  async function latestOf(uri: string, env: Readonly<Record<string, string>>): Promise<LoadedModules> {
    const { modules, ended } = await loadedBy(['latest', uri], env);
    expect(ended).toMatchObject({ code: NOT_FOUND, stdout: '' });
    return modules;
  }

  test('file', async () => {
    const { uri } = await newPlace();
    expect(await latestOf(uri, {})).toMatchObject({ stores: ['store-local'], sdks: [] });
  });

  test.each(ADAPTERS)('$name', async (adapter) => {
    let server: DiscardServer | undefined;
    try {
      server = await startDiscardServer(adapter.name, join(directory, 'pattern'));
      const { stores, sdks, packages } = await latestOf(adapter.uri(server.endpoint, 'run'), adapter.env);
      const own = `store-${adapter.name}`;
      expect(stores).toEqual([own]);
      expect(sdks.filter((sdk) => sdk !== own)).toEqual([]);
      // Without one loaded SDK as evidence, this test could not detect any.
      if (adapter.name === 's3') expect(packages).toContain('@smithy/core');
      // A custom endpoint needs no Google credentials.
      if (adapter.name === 'gcs') expect(packages).not.toContain('google-auth-library');
      // A key needs no Azure identity.
      if (adapter.name === 'azure') expect(packages).not.toContain('@azure/identity');
    } finally {
      await server?.close();
    }
  });
});
