/**
 * The policies of docs/install.md. Each role can do its work with its own policy and cannot do
 * another role's.
 */

import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { describeOnMinio } from '../servers/describe-on-s3.ts';
import { credentialsEnv, type Policy, restrictedCredentials } from '../servers/s3-access.ts';
import { type Ended, newPlace, type Place, writeFiles } from './holdfast-process.ts';
import { FRESH, SURE } from './roles.ts';
import { cli, type Env, expectError } from './s3-process.ts';

// Each test starts several processes, and other tests may keep the machine busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const ROLES = ['Trainer', 'Reader', 'Collector'] as const;
type Role = (typeof ROLES)[number];

const MANUAL = readFileSync(new URL('../../docs/install.md', import.meta.url), 'utf8');

function policyOf(role: Role, bucket: string): Policy {
  const text = new RegExp(`^${role}:\n\n\`\`\`json\n([\\s\\S]*?)\`\`\``, 'm').exec(MANUAL)?.[1] ?? '';
  return JSON.parse(text.replaceAll('my-bucket', bucket).replaceAll('runs/gpt', 'run')) as Policy;
}

describeOnMinio('roles on MinIO', {}, (minio) => {
  let place: Place;
  let uri: string;
  const envs = {} as Record<Role, Env>;

  beforeAll(async () => {
    place = await newPlace();
    // Large enough for an upload in parts.
    await writeFiles(place, 'model', {
      'model.bin': Buffer.alloc(20 * 1024 * 1024, 3),
      'notes.txt': 'hello',
    });
    const bucket = await minio().newBucket();
    uri = bucket.uri;
    for (const role of ROLES) {
      const { Statement } = policyOf(role, bucket.bucket);
      envs[role] = credentialsEnv(await restrictedCredentials(minio(), { Statement }));
    }
    return () => place.remove();
  });

  const as = (role: Role, ...args: string[]): Promise<Ended> => cli([...args, '--quiet'], envs[role]);

  async function expectDone(role: Role, ...args: string[]): Promise<void> {
    const { code, stderr } = await as(role, ...args);
    expect([stderr, code], args.join(' ')).toEqual(['', 0]);
  }

  describe('what each may', () => {
    test('a trainer saves and restores', async () => {
      for (const version of ['1', '2', '3'])
        await expectDone('Trainer', 'save', place.path('model'), uri, '--version', version, ...FRESH);
      await expectDone('Trainer', 'restore', uri, place.path('trainer'));
    });

    test('a reader restores, looks and verifies', async () => {
      await expectDone('Reader', 'restore', uri, place.path('reader'), '--version', '2');
      for (const command of ['latest', 'list', 'show']) await expectDone('Reader', command, uri);
      await expectDone('Reader', 'verify', uri, '--no-record');
    });

    test('a collector removes and verifies', async () => {
      await expectDone('Collector', 'gc', uri, '--keep', '1', '--grace', '0s', ...SURE);
      await expectDone('Collector', 'verify', uri);
      const { stdout } = await as('Collector', 'list', uri, '--json');
      const listed: { version: unknown }[] = JSON.parse(stdout).checkpoints;
      expect(listed.map(({ version }) => Number(version))).not.toContain(1);
    });
  });

  describe('what each may not', () => {
    test('a reader and a collector do not save', async () => {
      for (const role of ['Reader', 'Collector'] as const) {
        const ended = await as(role, 'save', place.path('model'), uri, '--version', '9');
        expectError(ended, 'Denied', 8, 'cannot create object');
      }
    });

    test('a reader pins nothing', async () => {
      expectError(
        await as('Reader', 'pin', uri, '--version', '3'),
        'Denied',
        8,
        'cannot create object catalog/',
      );
    });

    test('a trainer removes no checkpoint', async () => {
      await expectDone('Trainer', 'save', place.path('model'), uri, '--version', '4', ...FRESH);
      expect((await as('Trainer', 'gc', uri, '--keep', '1', '--grace', '0s', ...SURE)).code).toBe(8);
      await expectDone('Reader', 'verify', uri, '--version', '4', '--no-record');
    });
  });
});
