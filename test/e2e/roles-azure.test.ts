/**
 * The SAS permissions of docs/install.md. Each role can do its work with its own permissions and
 * cannot do another role's.
 */

import { readFileSync } from 'node:fs';
import {
  ContainerSASPermissions,
  generateBlobSASQueryParameters,
  SASProtocol,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import { beforeAll, expect, test, vi } from 'vitest';
import { describeOnAzurite } from '../servers/describe-on-azure.ts';
import { contentOf, type Ended, holdfast, newPlace, type Place, writeFiles } from './holdfast-process.ts';
import { FRESH, SURE } from './roles.ts';
import { expectError } from './s3-process.ts';

// Each test starts several processes, and other tests may keep the machine busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const LIFE_MS = 3_600_000;

const ROLES = ['trainer', 'reader', 'collector'] as const;
type Role = (typeof ROLES)[number];

const MANUAL = readFileSync(new URL('../../docs/install.md', import.meta.url), 'utf8');

function lettersOf(role: Role): string {
  const letters = new RegExp(`^\\| ${role} \\| \`blobs/.*\\| \`([a-z]+)\` \\|$`, 'm').exec(MANUAL)?.[1];
  if (letters === undefined) throw new Error(`docs/install.md has no letters for a ${role}`);
  return letters;
}

describeOnAzurite('roles on Azurite', {}, (azurite) => {
  let place: Place;
  let uri: string;
  const envs = {} as Record<Role, Record<string, string>>;

  beforeAll(async () => {
    place = await newPlace();
    // Large enough for an upload in parts.
    await writeFiles(place, 'model', {
      'model.bin': Buffer.alloc(20 * 1024 * 1024, 3),
      'notes.txt': 'hello',
    });
    const { account, key } = azurite();
    const container = await azurite().newBucket();
    uri = container.uri;
    for (const role of ROLES) {
      const sas = generateBlobSASQueryParameters(
        {
          containerName: container.bucket,
          permissions: ContainerSASPermissions.parse(lettersOf(role)),
          protocol: SASProtocol.HttpsAndHttp,
          expiresOn: new Date(Date.now() + LIFE_MS),
        },
        new StorageSharedKeyCredential(account, key),
      );
      envs[role] = { AZURE_STORAGE_ACCOUNT: account, AZURE_STORAGE_SAS_TOKEN: String(sas) };
    }
    return () => place.remove();
  });

  const as = (role: Role, ...args: string[]): Promise<Ended> =>
    holdfast([...args, '--quiet'], { env: envs[role] });

  async function expectDone(role: Role, ...args: string[]): Promise<void> {
    const { code, stderr } = await as(role, ...args);
    expect([stderr, code], args.join(' ')).toEqual(['', 0]);
  }

  const collect = ['gc', '--keep', '1', '--grace', '0s', ...SURE];

  test('a trainer saves, in parts too, and restores; it removes no checkpoint', async () => {
    for (const version of ['1', '2', '3'])
      await expectDone('trainer', 'save', place.path('model'), uri, '--version', version, ...FRESH);
    await expectDone('trainer', 'restore', uri, place.path('trainer'));
    expect(await contentOf(place.path('trainer'))).toEqual(await contentOf(place.path('model')));
    expectError(await as('trainer', ...collect, uri), 'Denied', 8);
    await expectDone('reader', 'verify', uri, '--no-record');
  });

  test('a reader restores, looks and verifies; it saves nothing and pins nothing', async () => {
    await expectDone('reader', 'restore', uri, place.path('reader'), '--version', '2');
    for (const command of ['latest', 'list', 'show']) await expectDone('reader', command, uri);
    await expectDone('reader', 'verify', uri, '--no-record');
    const saved = await as('reader', 'save', place.path('model'), uri, '--version', '9');
    expectError(saved, 'Denied', 8, 'cannot create object');
    const pinned = await as('reader', 'pin', uri, '--version', '3');
    expectError(pinned, 'Denied', 8, 'cannot create object catalog/');
  });

  test('a collector removes and verifies', async () => {
    await expectDone('collector', ...collect, uri);
    await expectDone('collector', 'verify', uri);
    const { stdout } = await as('collector', 'list', uri, '--json');
    const listed: { version: unknown }[] = JSON.parse(stdout).checkpoints;
    expect(listed.map(({ version }) => Number(version))).not.toContain(1);
  });
});
