import { ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { describeOnMinio, USER_S3 } from './describe-on-s3.ts';
import { s3Client } from './s3-access.ts';
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
