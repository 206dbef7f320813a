/**
 * Modules that load when the command line starts and when it opens a store. No command may load an
 * SDK that it does not need.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ADAPTERS, type Adapter } from '../bench/adapters/adapters.ts';
import { type DialectName, startDiscardServer } from '../bench/discard/process.ts';
import {
  AUTHORIZED_USER,
  EXTERNAL_ACCOUNT,
  type GoogleServices,
  SERVICE_ACCOUNT,
  SUBJECT_TOKEN,
  startGoogleServices,
} from '../credentials/google-services.ts';
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
      expect(modules).toMatchObject({ stores: [], sdks: [], onDemand: [] });
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

describe('opening one store loads its adapter, and neither an SDK nor what only TLS and proxies need', () => {
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

  /** Loads what the latest checkpoint of an empty run at this kind of store needs. */
  async function latestAt(name: DialectName, env?: Readonly<Record<string, string>>, settings = '') {
    const adapter = ADAPTERS.find((each) => each.name === name) as Adapter;
    const server = await startDiscardServer(name, join(directory, 'pattern'));
    try {
      return await latestOf(`${adapter.uri(server.endpoint, 'run')}${settings}`, env ?? adapter.env);
    } finally {
      await server.close();
    }
  }

  test('file', async () => {
    const { uri } = await newPlace();
    expect(await latestOf(uri, {})).toMatchObject({
      stores: ['store-local'],
      sdks: [],
      costly: [],
      onDemand: [],
    });
  });

  test('runs: only it and the exporter load the search for runs, and only the latter a server', async () => {
    const { uri } = await newPlace();
    const runs = await loadedBy(['runs', uri]);
    expect(runs.modules).toMatchObject({ stores: ['store-local'], onDemand: ['fleet'], costly: [] });
    const exporter = await loadedBy(['exporter', uri, '--once']);
    expect(exporter.modules.onDemand).toEqual(['fleet']);
    expect(exporter.modules.costly).toContain('node:http');
  });

  test.each(ADAPTERS)('$name, with at most a key of the environment', async ({ name }) => {
    expect(await latestAt(name)).toMatchObject({ stores: [`store-${name}`], sdks: [], costly: [] });
  });

  describe('S3 with a profile', () => {
    function filesWith(settings: string): Record<string, string> {
      writeFileSync(join(directory, 'credentials'), '');
      writeFileSync(join(directory, 'config'), `[profile train]\nregion = us-east-1\n${settings}`);
      return {
        AWS_PROFILE: 'train',
        AWS_CONFIG_FILE: join(directory, 'config'),
        AWS_SHARED_CREDENTIALS_FILE: join(directory, 'credentials'),
      };
    }

    test('that holds keys', async () => {
      const env = filesWith('aws_access_key_id = any\naws_secret_access_key = any\n');
      expect(await latestAt('s3', env)).toMatchObject({ stores: ['store-s3'], sdks: [], costly: [] });
    });

    // The evidence that these tests detect an SDK at all.
    test('that names a program: the SDK starts it', async () => {
      const keys = '{"Version":1,"AccessKeyId":"any","SecretAccessKey":"any"}';
      const env = filesWith(`credential_process = echo '${keys}'\n`);
      expect((await latestAt('s3', env)).sdks).toEqual(['store-s3']);
    });
  });

  describe('GCS with a file', () => {
    let services: GoogleServices;

    beforeAll(async () => {
      services = await startGoogleServices();
    });

    afterAll(() => services.stop());

    async function loadedWith(file: object): Promise<LoadedModules> {
      const path = join(directory, 'credentials.json');
      const text = JSON.stringify(file).replaceAll('HOME', directory);
      writeFileSync(path, text);
      writeFileSync(join(directory, 'subject'), SUBJECT_TOKEN);
      return latestAt('gcs', { ...services.env, GOOGLE_APPLICATION_CREDENTIALS: path }, '&auth=true');
    }

    test.each([
      ['the key of a service account', SERVICE_ACCOUNT],
      ['the login of a user', AUTHORIZED_USER],
    ])('that holds %s', async (_name, file) => {
      expect(await loadedWith(file)).toMatchObject({ stores: ['store-gcs'], sdks: [] });
    });

    test('that names another account: the library exchanges its token', async () => {
      expect((await loadedWith(EXTERNAL_ACCOUNT)).sdks).toEqual(['store-gcs']);
    });
  });
});
