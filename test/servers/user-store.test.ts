import { ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { AZURE, GCS } from './clouds.ts';
import { describeOnMinio, USER_S3 } from './describe-on-s3.ts';
import { s3Client } from './s3-access.ts';
import { partsOfBucket } from './test-bucket.ts';
import { openUserStore, parseUserPlace } from './user-store.ts';

describe('HOLDFAST_TEST_S3', () => {
  test('is a bucket, a prefix and settings', () => {
    const { bucket, prefix, query } = parseUserPlace(
      USER_S3,
      's3://b/some/%20place/?endpoint=http://h:1&region=r',
    );
    expect({ bucket, prefix }).toEqual({ bucket: 'b', prefix: 'some/ place' });
    expect(query.get('endpoint')).toBe('http://h:1');
  });

  test.each([
    's3://bucket',
    's3://bucket/',
    's3://bucket//?region=r',
    's3:///prefix',
    'https://bucket/prefix',
    '',
  ])('%j is refused', (uri) => {
    expect(() => parseUserPlace(USER_S3, uri)).toThrow('s3://bucket/prefix');
  });
});

describeOnMinio('a store of the user', {}, (minio) => {
  afterEach(() => vi.unstubAllEnvs());

  function stubCredentials(): void {
    vi.stubEnv('AWS_ACCESS_KEY_ID', minio().accessKeyId);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', minio().secretAccessKey);
  }

  test('gives new places below its prefix, with the same settings, and takes away what is in them', async () => {
    stubCredentials();
    const { bucket, endpoint } = await minio().newBucket();
    const client = await s3Client(minio());
    const put = (Key: string) => client.send(new PutObjectCommand({ Bucket: bucket, Key, Body: 'words' }));
    await put('some place/mine');
    const query = `?endpoint=${encodeURIComponent(minio().endpoint)}&region=us-east-1`;

    const store = await openUserStore(USER_S3, `s3://${bucket}/some%20place${query}`, process.env);
    const [one, other] = [await store.newBucket(), await store.newBucket()];
    expect(one.uri).not.toBe(other.uri);
    expect(one).toMatchObject({ bucket, endpoint, env: { AWS_ACCESS_KEY_ID: minio().accessKeyId } });
    const { prefix, query: given } = parseUserPlace(USER_S3, one.uri);
    expect(prefix).toMatch(/^some place\/holdfast-test-/);
    expect(given.get('endpoint')).toBe(endpoint);
    await put(`${prefix}/a`);
    await store.stop();

    const left = await client.send(new ListObjectsV2Command({ Bucket: bucket }));
    expect(left.Contents?.map(({ Key }) => Key)).toEqual(['some place/mine']);
    client.destroy();
  });

  test('is not trusted if it cannot be written', async () => {
    stubCredentials();
    const uri = `s3://no-such-bucket/p?endpoint=${encodeURIComponent(minio().endpoint)}&region=us-east-1`;
    await expect(openUserStore(USER_S3, uri, process.env)).rejects.toMatchObject({ name: 'NoSuchBucket' });
  });
});

/** Clouds whose credentials must not come from the environment that tests run in. */
const OTHERS = [
  {
    cloud: GCS,
    wrong: ['gs://bucket', 's3://bucket/prefix', 'gs:///prefix'],
    form: 'HOLDFAST_TEST_GCS is .*; it has to be gs://bucket/prefix',
  },
  {
    cloud: AZURE,
    wrong: ['az://account/container', 'az://account', 'gs://bucket/prefix'],
    form: 'HOLDFAST_TEST_AZURE is .*; it has to be az://account/container/prefix',
  },
];

for (const { cloud, wrong, form } of OTHERS) {
  cloud.describeOnOwn(`a store of the user on ${cloud.title}`, (server) => {
    test('gives new places below its prefix, with the same settings, and takes away what is in them', async () => {
      const given = await server().newBucket();
      const view = await cloud.openBucket(given);
      await view.create('some place/mine', Buffer.from('words'));
      const { root, query } = partsOfBucket(given);

      const store = await openUserStore(cloud, `${root}/some%20place?${query}`, { ...given.env, OTHER: 'x' });
      const [one, other] = [await store.newBucket(), await store.newBucket()];
      expect(one.uri).not.toBe(other.uri);
      expect(one).toMatchObject({ bucket: given.bucket, endpoint: given.endpoint, env: given.env });
      expect(one.env).not.toHaveProperty('OTHER');
      const { prefix } = partsOfBucket(one);
      expect(prefix).toMatch(/^some place\/holdfast-test-/);
      await view.create(`${prefix}/a`, Buffer.from('words'));
      await store.stop();

      expect(await view.list('')).toEqual(['some place/mine']);
      view.close();
    });

    test('is not trusted if it cannot be written', async () => {
      const { uri, bucket, env } = await server().newBucket();
      const missing = uri.replace(bucket, 'no-such-bucket');
      await expect(openUserStore(cloud, missing, env)).rejects.toThrow();
    });

    test.each(wrong)('%s is refused', (uri) => {
      expect(() => parseUserPlace(cloud, uri)).toThrow(new RegExp(form));
    });
  });
}
