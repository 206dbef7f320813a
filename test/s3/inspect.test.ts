/**
 * How a bucket's settings are reported: from scripted answers of S3, and from a MinIO with such
 * settings.
 */

import {
  CreateBucketCommand,
  PutBucketLifecycleConfigurationCommand,
  PutBucketVersioningCommand,
  PutObjectLockConfigurationCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import type { ObjectStore, StoreFact } from '@holdfast/core/contract';
import { openS3Store } from '@holdfast/store-s3';
import { describe, expect, test } from 'vitest';
import { type Answer, errorOf, type Script } from '../scripted/scripted-server.ts';
import { describeOnMinio } from '../servers/describe-on-s3.ts';
import { credentialsEnv, restrictedCredentials, s3Client } from '../servers/s3-access.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { refusal, scriptedS3 } from './scripted-s3.ts';

type Setting = 'versioning' | 'object-lock' | 'lifecycle' | 'encryption' | 'policyStatus';

const REQUEST_ID = { 'x-amz-request-id': 'REQ1' };
const xml = (body: string): Answer => ({
  headers: { 'content-type': 'application/xml', ...REQUEST_ID },
  body,
});
const HEAD: Answer = { headers: { ...REQUEST_ID, 'x-amz-bucket-region': 'us-east-1' } };

/** A bucket of S3 with default settings, except for those given. */
function bucket(settings: Partial<Record<Setting, Answer>> = {}, head = HEAD): Script {
  const answers: Record<Setting, Answer> = {
    versioning: xml('<VersioningConfiguration/>'),
    'object-lock': refusal(404, 'ObjectLockConfigurationNotFoundError'),
    lifecycle: refusal(404, 'NoSuchLifecycleConfiguration'),
    encryption: xml(
      '<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>',
    ),
    policyStatus: refusal(404, 'NoSuchBucketPolicy'),
    ...settings,
  };
  return ({ method, query }) => {
    if (method === 'HEAD') return head;
    const asked = Object.keys(answers).find((name) => query.has(name)) as Setting;
    return answers[asked];
  };
}

async function factsOf(
  script: Script,
  settings: Record<string, string> = {},
  env: Record<string, string> = {},
): Promise<(id: string) => StoreFact> {
  const server = await scriptedS3(script);
  const facts = await inspect(await server.open(settings, env));
  expect(server.requests.filter(({ signatureFault }) => signatureFault !== undefined)).toEqual([]);
  return (id) => facts.find((fact) => fact.id === id) as StoreFact;
}

async function inspect(store: ObjectStore): Promise<readonly StoreFact[]> {
  const facts = (await store.inspect?.()) ?? [];
  expect(new Set(facts.map(({ id }) => id)).size).toBe(facts.length);
  for (const { title } of facts) expect(title.length).toBeLessThanOrEqual(17);
  return facts;
}

describe('a bucket as it comes', () => {
  test('only uploads that no rule removes are a concern', async () => {
    const server = await scriptedS3(bucket());
    const facts = await inspect(await server.open());
    expect(facts.map(({ id, seen, concern }) => [id, seen, concern !== undefined])).toEqual([
      ['region', 'us-east-1', false],
      ['versioning', 'off', false],
      ['object-lock', 'off', false],
      ['lifecycle', 'no rules', false],
      ['abandoned-uploads', 'no rule removes them', true],
      ['encryption', 'AES256 by default', false],
      ['access', 'no policy makes it public', false],
    ]);
    expect(server.requests).toHaveLength(6);
  });
});

describe('settings', () => {
  const enabled = xml('<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>');
  const rules = (body: string) =>
    xml(
      `<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter>${body}</Rule></LifecycleConfiguration>`,
    );

  test('versioning: a warning, unless a rule removes noncurrent versions', async () => {
    expect((await factsOf(bucket({ versioning: enabled })))('versioning')).toMatchObject({
      seen: 'on',
      concern: { meaning: expect.stringContaining('billed') },
    });
    const lifecycle = rules(
      '<NoncurrentVersionExpiration><NoncurrentDays>2</NoncurrentDays></NoncurrentVersionExpiration>',
    );
    expect((await factsOf(bucket({ versioning: enabled, lifecycle })))('versioning')).toEqual({
      id: 'versioning',
      title: 'versioning',
      seen: 'on; a rule removes noncurrent versions after 2 days',
    });
    const suspended = xml('<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>');
    expect((await factsOf(bucket({ versioning: suspended })))('versioning').concern).toBeUndefined();
  });

  test('a rule that deletes by age is a warning', async () => {
    const fact = (await factsOf(bucket({ lifecycle: rules('<Expiration><Days>30</Days></Expiration>') })))(
      'lifecycle',
    );
    expect(fact.seen).toBe('rule "r" deletes objects 30 days after they are written');
    expect(fact.concern?.meaning).toContain('no longer be restored');
  });

  const lock = (inner: string) =>
    xml(
      `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>${inner}</ObjectLockConfiguration>`,
    );
  const retention = (inner: string) =>
    lock(`<Rule><DefaultRetention><Mode>COMPLIANCE</Mode>${inner}</DefaultRetention></Rule>`);
  test.each<[string, Answer, string, boolean]>([
    ['without retention', lock(''), 'on, without a default retention', false],
    ['for days', retention('<Days>30</Days>'), 'each object is kept for 30 days (COMPLIANCE)', true],
    ['for a year', retention('<Years>1</Years>'), 'each object is kept for 1 year (COMPLIANCE)', true],
  ])('object lock %s', async (_, answer, seen, isWarned) => {
    const fact = (await factsOf(bucket({ 'object-lock': answer })))('object-lock');
    expect(fact.seen).toBe(seen);
    expect(fact.concern !== undefined).toBe(isWarned);
  });

  test('object lock with checksum=none: nothing can be written', async () => {
    const fact = (await factsOf(bucket({ 'object-lock': lock('') }), { checksum: 'none' }))('object-lock');
    expect(fact.concern?.advice).toContain('checksum=none');
  });

  const encryption = (inner: string) =>
    xml(`<ServerSideEncryptionConfiguration><Rule>${inner}</Rule></ServerSideEncryptionConfiguration>`);
  const kms =
    '<ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>arn:aws:kms:k</KMSMasterKeyID></ApplyServerSideEncryptionByDefault>';
  test('encryption by KMS: a warning without a bucket key; what the URI says counts more', async () => {
    const without = bucket({ encryption: encryption(kms) });
    expect((await factsOf(without))('encryption')).toMatchObject({
      seen: 'aws:kms by default, a key of its own, no bucket key',
      concern: { advice: expect.stringContaining('Bucket Key') },
    });
    const withKey = bucket({ encryption: encryption(`${kms}<BucketKeyEnabled>true</BucketKeyEnabled>`) });
    expect((await factsOf(withKey))('encryption').concern).toBeUndefined();
    expect((await factsOf(without, { sse: 'AES256' }))('encryption').seen).toBe('AES256, as the URI says');
    const HOLDFAST_S3_CUSTOMER_KEY = Buffer.alloc(32, 9).toString('base64');
    const own = (await factsOf(without, {}, { HOLDFAST_S3_CUSTOMER_KEY }))('encryption');
    expect(own.seen).toBe('by the key of HOLDFAST_S3_CUSTOMER_KEY');
    const none = bucket({ encryption: refusal(404, 'ServerSideEncryptionConfigurationNotFoundError') });
    expect((await factsOf(none))('encryption').seen).toBe('none by default');
  });

  test('a public policy is a warning', async () => {
    const policyStatus = xml('<PolicyStatus><IsPublic>TRUE</IsPublic></PolicyStatus>');
    expect((await factsOf(bucket({ policyStatus })))('access').concern).toBeDefined();
  });

  test('another region than the one that is set is a warning', async () => {
    const head = { headers: { ...REQUEST_ID, 'x-amz-bucket-region': 'eu-west-1' } };
    const fact = (await factsOf(bucket({}, head)))('region');
    expect(fact).toMatchObject({ seen: 'eu-west-1', concern: { advice: 'set region=eu-west-1 in the URI' } });
  });

  test('a store that tells no region has no such fact', async () => {
    expect((await factsOf(bucket({}, { headers: REQUEST_ID })))('region')).toBeUndefined();
  });
});

describe('what is not told', () => {
  const all = (answer: Answer) =>
    bucket({
      versioning: answer,
      'object-lock': answer,
      lifecycle: answer,
      encryption: answer,
      policyStatus: answer,
    });

  test('what may not be read is a fact that names the permission', async () => {
    const of = await factsOf(all(refusal(403, 'AccessDenied')));
    expect(
      ['versioning', 'object-lock', 'lifecycle', 'abandoned-uploads', 'encryption', 'access'].map((id) => {
        const { seen, concern } = of(id);
        expect(concern).toBeUndefined();
        return /^not readable: it needs (s3:\w+)$/.exec(seen)?.[1];
      }),
    ).toEqual([
      's3:GetBucketVersioning',
      's3:GetBucketObjectLockConfiguration',
      's3:GetLifecycleConfiguration',
      's3:GetLifecycleConfiguration',
      's3:GetEncryptionConfiguration',
      's3:GetBucketPolicyStatus',
    ]);
  });

  test('a store that knows no such setting says so', async () => {
    const of = await factsOf(all(refusal(501, 'NotImplemented')));
    expect(of('versioning').seen).toBe('this store does not report it (NotImplemented)');
  });

  test('versions whose rules are not told are a warning', async () => {
    const versioning = xml('<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>');
    const of = await factsOf(bucket({ versioning, lifecycle: refusal(403, 'AccessDenied') }));
    expect(of('versioning').seen).toContain('it is not known');
    expect(of('versioning').concern).toBeDefined();
  });

  test.each([
    [403, 'SignatureDoesNotMatch', 'Denied'],
    [503, 'SlowDown', 'Throttled'],
    [500, 'InternalError', 'Unavailable'],
    [404, 'NoSuchBucket', 'NotFound'],
  ] as const)('%i %s is an error, for the caller to repeat or to tell', async (status, code, expected) => {
    const server = await scriptedS3(all(refusal(status, code)));
    const store = await server.open();
    expect((await errorOf(store.inspect?.() as Promise<unknown>)).code).toBe(expected);
  });

  test('a page of a web server passes for no setting', async () => {
    const page = { headers: { 'content-type': 'text/html' }, body: '<html>welcome</html>' };
    const server = await scriptedS3(() => page);
    const store = await server.open();
    expect((await errorOf(store.inspect?.() as Promise<unknown>)).code).toBe('InvalidConfig');
  });
});

describeOnMinio('settings of a MinIO', {}, (server) => {
  async function configured(
    configure: (client: S3Client, Bucket: string) => Promise<unknown>,
    create = {},
  ): Promise<TestBucket> {
    const place = await server().newBucket();
    const client = await s3Client(server());
    try {
      const bucketName = `${place.bucket}-set`;
      await client.send(new CreateBucketCommand({ Bucket: bucketName, ...create }));
      await configure(client, bucketName);
      return { ...place, bucket: bucketName, uri: place.uri.replace(place.bucket, bucketName) };
    } finally {
      client.destroy();
    }
  }

  async function factsOfBucket({ uri, env }: TestBucket): Promise<(id: string) => StoreFact> {
    const store = await openS3Store(uri, env);
    const facts = await inspect(store);
    await store.close();
    return (id) => facts.find((fact) => fact.id === id) as StoreFact;
  }

  test('a new bucket: nothing of concern', async () => {
    const store = await server().newBucket();
    const of = await factsOfBucket(store);
    for (const id of ['versioning', 'object-lock', 'lifecycle', 'abandoned-uploads', 'encryption', 'access'])
      expect(of(id)?.concern, id).toBeUndefined();
    expect(of('abandoned-uploads').seen).toContain('MinIO');
  });

  test('versions, and rules that delete', async () => {
    const place = await configured(async (client, Bucket) => {
      const VersioningConfiguration = { Status: 'Enabled' } as const;
      await client.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
      const Filter = { Prefix: 'run' };
      const Rules = [{ ID: 'weekly', Status: 'Enabled', Filter, Expiration: { Days: 7 } } as const];
      await client.send(
        new PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: { Rules } }),
      );
    });
    const of = await factsOfBucket(place);
    expect(of('versioning')).toMatchObject({ seen: 'on', concern: expect.anything() });
    expect(of('lifecycle').seen).toBe('rule "weekly" deletes objects 7 days after they are written');
  });

  test('a lock with a retention of its own: what is written under it can be read, and is hidden when removed', async () => {
    const place = await configured(
      (client, Bucket) => {
        const DefaultRetention = { Mode: 'GOVERNANCE', Days: 1 } as const;
        const ObjectLockConfiguration = { ObjectLockEnabled: 'Enabled', Rule: { DefaultRetention } } as const;
        return client.send(new PutObjectLockConfigurationCommand({ Bucket, ObjectLockConfiguration }));
      },
      { ObjectLockEnabledForBucket: true },
    );
    const of = await factsOfBucket(place);
    expect(of('object-lock')).toMatchObject({ seen: 'each object is kept for 1 day (GOVERNANCE)' });
    const store = await openS3Store(place.uri, place.env);
    await store.create('a', new Uint8Array(3), { crc32c: 0x6064a37a });
    expect(await store.deleteMany(['a'])).toEqual([{ key: 'a' }]);
    expect((await errorOf(store.head('a'))).code).toBe('NotFound');
    await store.close();
  });

  test('credentials for objects alone: each setting names what it takes', async () => {
    const { uri, bucket: name } = await server().newBucket();
    const credentials = await restrictedCredentials(server(), {
      Statement: [
        {
          Effect: 'Allow',
          Action: ['s3:ListBucket', 's3:GetObject', 's3:PutObject', 's3:DeleteObject'],
          Resource: [`arn:aws:s3:::${name}`, `arn:aws:s3:::${name}/*`],
        },
      ],
    });
    const store = await openS3Store(uri, credentialsEnv(credentials));
    const facts = await inspect(store);
    await store.close();
    const untold = facts.filter(({ seen }) => seen.startsWith('not readable: it needs s3:'));
    expect(untold.map(({ id }) => id)).toEqual(
      expect.arrayContaining(['versioning', 'lifecycle', 'encryption']),
    );
    expect(facts.filter(({ concern }) => concern !== undefined)).toEqual([]);
  });
});
