/** Properties of a bucket, and what they mean for checkpoints. */

import { readFileSync } from 'node:fs';
import type { StoreFact } from '@holdfast/core/contract';
import { describe, expect, test } from 'vitest';
import { errorOf, type Reply } from '../scripted/scripted-server.ts';
import { refusal } from './fake-gcs.ts';
import { onlyFor, scriptedGcs } from './scripted-gcs.ts';

async function factsOf(
  bucket: Record<string, unknown>,
  settings: Record<string, string> = {},
): Promise<Map<string, StoreFact>> {
  const server = await scriptedGcs();
  server.fake.bucket = bucket;
  const facts = await (await server.open(settings)).inspect?.();
  return new Map(facts?.map((fact) => [fact.id, fact]));
}

const lifecycle = (...rule: unknown[]) => ({ lifecycle: { rule } });
const PARTS_RULE = { action: { type: 'AbortIncompleteMultipartUpload' }, condition: { age: 7 } };

describe('the rules that the manual says to add', () => {
  const manual = readFileSync(new URL('../../docs/stores/gcs.md', import.meta.url), 'utf8');
  const [, json = ''] = /```json\n(\{\s+"lifecycle".*?)```/s.exec(manual) ?? [];

  test.each(['multipart', 'compose'])('leave nothing to warn of with uploads=%s', async (uploads) => {
    const rules = JSON.parse(json.replaceAll(/"runs\/(gpt\/)?/g, '"gpt/')) as Record<string, unknown>;
    const facts = await factsOf({ ...rules, versioning: { enabled: true } }, { uploads });
    for (const id of ['lifecycle', 'abandoned-uploads', 'versioning'])
      expect(facts.get(id)).not.toHaveProperty('concern');
    expect(facts.get('abandoned-uploads')?.seen).toBe('a rule removes them');
  });
});

describe('a bucket', () => {
  test('with nothing set but a rule for what killed processes leave: no concern', async () => {
    const facts = await factsOf({ location: 'EU', locationType: 'multi-region', ...lifecycle(PARTS_RULE) });
    expect([...facts.values()].filter(({ concern }) => concern !== undefined)).toEqual([]);
    expect([...facts.values()].every(({ title }) => title.length <= 17)).toBe(true);
    expect(Object.fromEntries([...facts].map(([id, { seen }]) => [id, seen]))).toEqual({
      location: 'EU (multi-region), STANDARD',
      versioning: 'off',
      'soft-delete': 'off',
      'retention-policy': 'none',
      'default-hold': 'off',
      'object-retention': 'off',
      lifecycle: 'no rule deletes live objects',
      'abandoned-uploads': 'a rule removes them',
      autoclass: 'off',
      'requester-pays': 'no',
      access: 'by object (ACLs)',
      encryption: "by Google's keys",
      permissions: 'all 7 that are needed',
    });
  });

  test.each<[string, Record<string, unknown>, string, string]>([
    ['versioning', { versioning: { enabled: true } }, 'on', 'noncurrent'],
    [
      'soft-delete',
      { softDeletePolicy: { retentionDurationSeconds: '604800' } },
      'keeps for 7 days',
      'billed',
    ],
    [
      'retention-policy',
      { retentionPolicy: { retentionPeriod: '86400', isLocked: true } },
      'keeps for 1 day, locked',
      'nothing can be removed',
    ],
    ['default-hold', { defaultEventBasedHold: true }, 'on', 'is released'],
    ['requester-pays', { billing: { requesterPays: true } }, 'yes', 'refused'],
  ])('%s: a concern', async (id, bucket, seen, meaning) => {
    const fact = (await factsOf(bucket)).get(id);
    expect(fact?.seen).toBe(seen);
    expect(fact?.concern?.meaning).toContain(meaning);
    expect(fact?.concern?.advice).not.toBe('');
  });

  test('with settings that do not matter but are reported', async () => {
    const facts = await factsOf(
      {
        autoclass: { enabled: true, terminalStorageClass: 'ARCHIVE' },
        objectRetention: { mode: 'Enabled' },
        iamConfiguration: { uniformBucketLevelAccess: { enabled: true } },
        billing: { requesterPays: true },
        encryption: { defaultKmsKeyName: 'projects/p/keys/k' },
      },
      { userProject: 'team-1' },
    );
    const seen = (id: string) => [facts.get(id)?.seen, facts.get(id)?.concern];
    expect(seen('autoclass')).toEqual(['on, down to ARCHIVE', undefined]);
    expect(seen('object-retention')).toEqual(['possible (Enabled)', undefined]);
    expect(seen('access')).toEqual(['uniform', undefined]);
    expect(seen('requester-pays')).toEqual(['yes: team-1', undefined]);
    expect(seen('encryption')).toEqual(['projects/p/keys/k', undefined]);
  });
});

test('versions that a rule removes are no concern', async () => {
  const rule = { action: { type: 'Delete' }, condition: { daysSinceNoncurrentTime: 3 } };
  const fact = (await factsOf({ versioning: { enabled: true }, ...lifecycle(rule) })).get('versioning');
  expect(fact).toEqual({
    id: 'versioning',
    title: 'versioning',
    seen: 'on; a rule removes noncurrent versions: daysSinceNoncurrentTime 3',
  });
});

describe('lifecycle rules', () => {
  test.each<[string, unknown]>([
    ['by age', { action: { type: 'Delete' }, condition: { age: 30 } }],
    ['of our prefix', { action: { type: 'Delete' }, condition: { age: 30, matchesPrefix: ['gpt/'] } }],
    ['of a prefix around it', { action: { type: 'Delete' }, condition: { age: 30, matchesPrefix: ['g'] } }],
    ['of some of ours', { action: { type: 'Delete' }, condition: { age: 30, matchesPrefix: ['gpt/old/'] } }],
    ['by a date', { action: { type: 'Delete' }, condition: { createdBefore: '2026-01-01' } }],
    ['without a condition', { action: { type: 'Delete' } }],
  ])('that delete live objects %s are a danger', async (_name, rule) => {
    const fact = (await factsOf(lifecycle(rule))).get('lifecycle');
    expect(fact?.seen).toContain('a rule deletes live objects');
    expect(fact?.concern?.meaning).toContain('no longer be restored');
  });

  test.each<[string, unknown]>([
    ['of another prefix', { action: { type: 'Delete' }, condition: { age: 30, matchesPrefix: ['logs/'] } }],
    ['of noncurrent versions', { action: { type: 'Delete' }, condition: { isLive: false, age: 3 } }],
    ['of all but some versions', { action: { type: 'Delete' }, condition: { numNewerVersions: 1 } }],
    [
      'of what uploads leave',
      { action: { type: 'Delete' }, condition: { age: 7, matchesPrefix: ['gpt/.holdfast-'] } },
    ],
    [
      'that only move',
      { action: { type: 'SetStorageClass', storageClass: 'COLDLINE' }, condition: { age: 30 } },
    ],
  ])('%s do not count as one', async (_name, rule) => {
    expect((await factsOf(lifecycle(rule))).get('lifecycle')?.concern).toBeUndefined();
  });

  test('a rule for what uploads leave is asked for, as they are sent', async () => {
    const parts = (await factsOf({})).get('abandoned-uploads');
    expect(parts?.concern?.advice).toContain(
      '{"action":{"type":"AbortIncompleteMultipartUpload"},"condition":{"age":7}}',
    );
    const objects = (await factsOf(lifecycle(PARTS_RULE), { uploads: 'compose' })).get('abandoned-uploads');
    const [, rule = ''] = /(\{.*\})/.exec(objects?.concern?.advice ?? '') ?? [];
    expect(JSON.parse(rule)).toEqual({
      action: { type: 'Delete' },
      condition: { age: 7, matchesPrefix: ['gpt/.holdfast-'] },
    });
    const cleared = await factsOf(lifecycle(JSON.parse(rule)), { uploads: 'compose' });
    expect(cleared.get('abandoned-uploads')?.concern).toBeUndefined();
    expect((await factsOf({}, { uploads: 'single' })).get('abandoned-uploads')?.seen).toBe(
      'none are possible',
    );
  });
});

describe('permissions', () => {
  test('that are missing are named', async () => {
    const server = await scriptedGcs();
    server.fake.permissions = ['storage.objects.get', 'storage.objects.list'];
    const facts = await (await server.open({ uploads: 'compose' })).inspect?.();
    const fact = facts?.find(({ id }) => id === 'permissions');
    expect(fact?.seen).toBe('missing: storage.objects.create, storage.objects.delete');
    expect(fact?.concern?.advice).toContain('roles/storage.objectUser');
  });

  test('a bucket that may not be looked at is a fact, and no error', async () => {
    const server = await scriptedGcs(
      onlyFor(({ path }) => path === '/storage/v1/b/runs', refusal(403, 'forbidden')),
    );
    const facts = await (await server.open()).inspect?.();
    expect(facts?.map(({ id, seen }) => [id, seen])).toEqual([
      ['bucket', 'not readable with these credentials: it needs storage.buckets.get'],
      ['permissions', 'all 7 that are needed'],
    ]);
  });

  test.each<[string, Reply]>([
    ['an emulator', { status: 404, body: '404 page not found' }],
    ['a bucket that tells nobody', refusal(403, 'forbidden')],
  ])('%s does not tell', async (_name, reply) => {
    const server = await scriptedGcs(onlyFor(({ path }) => path.endsWith('/iam/testPermissions'), reply));
    const facts = await (await server.open()).inspect?.();
    expect(facts?.find(({ id }) => id === 'permissions')?.seen).toBe('this server does not report it');
  });
});

test.each<[string, Reply, string]>([
  ['a missing bucket', refusal(404, 'notFound', 'The specified bucket does not exist.'), 'NotFound'],
  ['a store that stumbles', refusal(503, 'backendError'), 'Unavailable'],
])('%s is an error', async (_name, reply, code) => {
  const store = await (await scriptedGcs(() => reply)).open();
  expect((await errorOf(store.inspect?.() as Promise<unknown>)).code).toBe(code);
});
