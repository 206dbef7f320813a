import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import { afterEach, describe, expect, test } from 'vitest';
import { describeOnMinio, describeOnVersitygw } from './describe-on-s3.ts';
import { createIfAbsentFault } from './probe.ts';
import { deletePrefix, s3Client, s3View } from './s3-access.ts';

const RACERS = 4;

/**
 * A server that answers the n-th create of a key with the n-th status. Later creates get the last
 * status.
 */
let server: http.Server;

async function probe(...statuses: number[]): Promise<string | undefined> {
  const counts = new Map<string, number>();
  server = http.createServer((request, response) => {
    const count = counts.get(request.url ?? '') ?? 0;
    counts.set(request.url ?? '', count + 1);
    expect(request.headers['if-none-match']).toBe('*');
    request.resume();
    request.on('end', () =>
      response.writeHead(statuses[Math.min(count, statuses.length - 1)] as number).end(),
    );
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  const client = await s3Client({
    endpoint: `http://127.0.0.1:${port}`,
    region: 'us-east-1',
    accessKeyId: 'a',
    secretAccessKey: 'b',
  });
  try {
    return await createIfAbsentFault(s3View(client, 'bucket'), 'p/', { rounds: 2, racers: RACERS });
  } finally {
    client.destroy();
  }
}

describe('the probe of create-if-absent', () => {
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  test.each([
    ['keeps it', [200, 412], undefined],
    ['keeps it, and asks some to try again', [409, 200, 409, 412], undefined],
    ['ignores the condition', [200], '4 of 4 concurrent creates of one key succeeded'],
    ['lets two in', [200, 200, 412], '2 of 4 concurrent creates of one key succeeded'],
    ['lets nobody in', [412], '0 of 4 concurrent creates of one key succeeded'],
    [
      'forgets',
      [200, 412, 412, 412, 200],
      'a create of a key that exists was answered with "created" instead of "exists"',
    ],
  ])('a server that %s', async (_what, statuses, fault) => {
    expect(await probe(...statuses)).toBe(fault);
  });

  test('a server that refuses us is no answer', async () => {
    await expect(probe(403)).rejects.toMatchObject({ $metadata: { httpStatusCode: 403 } });
  });
});

describeOnVersitygw('versitygw', (versitygw) => {
  test('its create-if-absent lets two in, and the probe finds it', { timeout: 120_000 }, async () => {
    const client = await s3Client(versitygw());
    const { bucket } = await versitygw().newBucket();
    const fault = await createIfAbsentFault(s3View(client, bucket), '', { rounds: 400, racers: 16 });
    client.destroy();
    expect(fault).toMatch(/^\d+ of 16 concurrent creates of one key succeeded$/);
  });
});

describeOnMinio('deletePrefix', {}, (minio) => {
  test('everything below the prefix is gone, more than one page of it, and nothing beside it', async () => {
    const client = await s3Client(minio());
    const { bucket } = await minio().newBucket();
    const keys = [...Array.from({ length: 1001 }, (_, index) => `a/${index}`), 'ab'];
    const put = (Key: string) => client.send(new PutObjectCommand({ Bucket: bucket, Key, Body: 'x' }));
    for (let at = 0; at < keys.length; at += 50) await Promise.all(keys.slice(at, at + 50).map(put));
    await deletePrefix(client, bucket, 'a/');
    const left = await client.send(new ListObjectsV2Command({ Bucket: bucket }));
    expect(left.Contents?.map(({ Key }) => Key)).toEqual(['ab']);
    client.destroy();
  });
});
