/** The meaning of a container's settings, and what the store reports about them. */

import type { StoreFact } from '@holdfast/core/contract';
import { openAzureStore } from '@holdfast/store-azure';
import { describe, expect, test } from 'vitest';
import { errorOf, type Reply, type SeenRequest } from '../scripted/scripted-server.ts';
import { describeOnAzure } from '../servers/describe-on-azure.ts';
import { azureInMemory, refusal, scriptedAzure } from './scripted-azure.ts';

/** Answers to the requests of `inspect`, by subject. */
interface Answers {
  readonly container?: Reply;
  readonly account?: Reply;
  readonly service?: Reply;
  readonly list?: Reply;
}

const HEADERS = { 'x-ms-request-id': 'REQ1' };

async function factsOf(answers: Answers, settings = {}): Promise<Map<string, StoreFact>> {
  const server = await azureInMemory({}, ({ query }: SeenRequest, pass) => {
    const restype = query.get('restype');
    const reply = query.get('comp') === 'list' ? answers.list : answers[restype as keyof Answers];
    return reply ?? pass();
  });
  const store = await server.open(settings);
  const facts = (await store.inspect?.()) ?? [];
  for (const { title } of facts) expect(title.length).toBeLessThanOrEqual(17);
  return new Map(facts.map((fact) => [fact.id, fact]));
}

function of(headers: Record<string, string>): Reply {
  return { status: 200, headers: { ...HEADERS, ...headers } };
}

function blobWith(properties: string): Reply {
  const body = `<EnumerationResults><Blobs><Blob><Name>gpt/a</Name>${properties}</Blob></Blobs><NextMarker /></EnumerationResults>`;
  return { status: 200, headers: HEADERS, body };
}

describe('inspect', () => {
  test('a plain account has nothing to worry about except soft delete', async () => {
    const facts = await factsOf({});
    const seen = Object.fromEntries([...facts].map(([id, fact]) => [id, fact.seen]));
    expect(seen).toMatchObject({
      redundancy: 'Standard_LRS',
      'hierarchical-namespace': 'flat',
      immutability: 'none',
      access: 'private',
      'soft-delete': 'keeps for 7 days',
      versioning: 'not known before there is a blob',
      'access-tier': 'that of the account',
      encryption: 'by the key of the account',
    });
    const worrying = [...facts.values()].filter(({ concern }) => concern !== undefined);
    expect(worrying.map(({ id }) => id)).toEqual(['soft-delete']);
  });

  test.each<[string, string, Answers, string, RegExp]>([
    [
      'hierarchical namespace',
      'hierarchical-namespace',
      { account: of({ 'x-ms-is-hns-enabled': 'true' }) },
      'hierarchical',
      /directories stay/,
    ],
    [
      'an immutability policy',
      'immutability',
      { container: of({ 'x-ms-has-immutability-policy': 'true' }) },
      'a policy',
      /nothing can be removed/,
    ],
    [
      'a legal hold',
      'immutability',
      { container: of({ 'x-ms-has-immutability-policy': 'true', 'x-ms-has-legal-hold': 'true' }) },
      'a policy and a legal hold',
      /nothing can be removed/,
    ],
    [
      'public access',
      'access',
      { container: of({ 'x-ms-blob-public-access': 'blob' }) },
      'public (blob)',
      /can be read without credentials/,
    ],
    [
      'versioning',
      'versioning',
      { list: blobWith('<VersionId>2026-11-21T10:00:00.0000000Z</VersionId>') },
      'on',
      /earlier versions/,
    ],
  ])('%s is worth a warning', async (_name, id, answers, seen, meaning) => {
    const fact = (await factsOf(answers)).get(id);
    expect(fact?.seen).toBe(seen);
    expect(fact?.concern?.meaning).toMatch(meaning);
    expect(fact?.concern?.advice).not.toBe('');
  });

  test.each<[string, string, Answers, string]>([
    [
      'immutability by version',
      'immutability',
      { container: of({ 'x-ms-immutable-storage-with-versioning-enabled': 'true' }) },
      'allowed for versions',
    ],
    [
      'the scope of a container',
      'encryption',
      { container: of({ 'x-ms-default-encryption-scope': 'scope-1' }) },
      'scope scope-1',
    ],
    ['no versioning', 'versioning', { list: blobWith('') }, 'off'],
    [
      'the tier of blobs',
      'access-tier',
      { list: blobWith('<Properties><AccessTier>Cool</AccessTier></Properties>') },
      'Cool',
    ],
    [
      'soft delete that is off',
      'soft-delete',
      {
        service: {
          status: 200,
          headers: HEADERS,
          body: '<DeleteRetentionPolicy><Enabled>false</Enabled></DeleteRetentionPolicy>',
        },
      },
      'off',
    ],
  ])('%s is told', async (_name, id, answers, seen) => {
    const fact = (await factsOf(answers)).get(id);
    expect(fact).toEqual({ id, title: fact?.title, seen });
  });

  test('what may not be read is a fact that says which permission it takes', async () => {
    const denied = refusal(403, 'AuthorizationPermissionMismatch');
    const facts = await factsOf({ container: denied, account: denied, service: denied, list: denied });
    for (const id of [
      'redundancy',
      'hierarchical-namespace',
      'immutability',
      'access',
      'soft-delete',
      'versioning',
      'access-tier',
    ]) {
      expect(facts.get(id)?.seen).toMatch(/^not readable with these credentials: it needs /);
      expect(facts.get(id)?.concern).toBeUndefined();
    }
  });

  test('what the server does not know is a fact that says so', async () => {
    const unknown = refusal(400, 'InvalidQueryParameterValue');
    const facts = await factsOf({ account: unknown, service: unknown });
    for (const id of ['redundancy', 'hierarchical-namespace', 'soft-delete'])
      expect(facts.get(id)?.seen).toBe('the server does not report it');
  });

  test('a missing container is an error, and so is a server that stumbles or an answer that is cut off', async () => {
    for (const [reply, code] of [
      [refusal(404, 'ContainerNotFound'), 'NotFound'],
      [refusal(500, 'InternalError'), 'Unavailable'],
      [{ headers: HEADERS, body: '<StorageServiceProperties><Logging>' }, 'Unavailable'],
    ] as const) {
      const server = await scriptedAzure(() => reply);
      const store = await server.open();
      expect((await errorOf(store.inspect?.() as Promise<unknown>)).code).toBe(code);
    }
  });
});

describeOnAzure('inspect of a real server', (server) => {
  test('tells what it tells', async () => {
    const { uri, env } = await server().newBucket();
    const store = await openAzureStore(uri, env);
    const facts = (await store.inspect?.()) ?? [];
    await store.close();
    expect(facts.map(({ id }) => id)).toContain('immutability');
    expect(facts.find(({ id }) => id === 'access')?.seen).toBe('private');
  });
});
