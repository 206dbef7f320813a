import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeOnMinio, describeOnS3 } from './describe-on-s3.ts';
import { restrictedCredentials, s3Client } from './s3-access.ts';

describeOnS3('a server for a suite', (server) => {
  test('each place is new', async () => {
    const [one, other] = [await server().newBucket(), await server().newBucket()];
    expect(one.uri).toMatch(/^s3:\/\/[^/]+\/[^?]+/);
    expect(one.uri).not.toBe(other.uri);
  });
});

describe.each([{ tls: false }, { tls: true }])('%o', ({ tls }) => {
  describeOnMinio('a MinIO of its own', { tls }, (server) => {
    let root: S3Client;
    let bucket: string;
    beforeAll(async () => {
      root = await s3Client(server());
      bucket = (await server().newBucket()).bucket;
      await root.send(new PutObjectCommand({ Bucket: bucket, Key: 'a', Body: 'words' }));
    });
    afterAll(() => root?.destroy());

    test('the URI and the environment of a place say all that a client needs', async () => {
      const { uri, env, endpoint } = await server().newBucket();
      const { searchParams, protocol } = new URL(uri);
      expect(protocol).toBe('s3:');
      expect(searchParams.get('endpoint')).toBe(server().endpoint);
      expect(searchParams.get('endpoint')).toMatch(tls ? /^https:/ : /^http:/);
      expect(searchParams.get('ca')).toBe(tls ? server().caPath : null);
      expect(endpoint).toBe(server().endpoint);
      const { accessKeyId, secretAccessKey } = server();
      expect(env).toEqual({ AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey });
    });

    test('restricted credentials may do what the policy says, and nothing else', async () => {
      const readOnly = await restrictedCredentials(server(), {
        Statement: [{ Effect: 'Allow', Action: ['s3:GetObject'], Resource: [`arn:aws:s3:::${bucket}/*`] }],
      });
      const client = await s3Client(server(), readOnly);
      const got = await client.send(new GetObjectCommand({ Bucket: bucket, Key: 'a' }));
      expect(await got.Body?.transformToString()).toBe('words');
      const put = client.send(new PutObjectCommand({ Bucket: bucket, Key: 'b', Body: 'words' }));
      await expect(put).rejects.toMatchObject({ name: 'AccessDenied' });
      const list = client.send(new ListObjectsV2Command({ Bucket: bucket }));
      await expect(list).rejects.toMatchObject({ name: 'AccessDenied' });
      client.destroy();
    });

    test('a policy that makes no sense is refused, with the words of the server', async () => {
      const statement = { Effect: 'Allow', Action: ['s3:NoSuchAction'], Resource: ['*'] } as const;
      await expect(restrictedCredentials(server(), { Statement: [statement] })).rejects.toThrow(
        /AssumeRole .* 4\d\d/,
      );
    });
  });
});
