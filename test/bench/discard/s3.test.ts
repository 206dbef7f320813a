import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { s3Client } from '../../servers/s3-access.ts';
import { MIB, patternPieces, ROTATION_BYTES } from '../s3/shapes.ts';
import { assertStored, discardTarget, removePrefix, type Target } from '../s3/targets.ts';

const PATTERN = randomBytes(4 * MIB);
const directory = mkdtempSync(join(tmpdir(), 'holdfast-discard-'));
let target: Target;
let client: S3Client;

beforeAll(async () => {
  const patternPath = join(directory, 'pattern');
  writeFileSync(patternPath, PATTERN);
  target = await discardTarget({ directory, tls: false }, patternPath);
  client = await s3Client(target.access);
});

afterAll(async () => {
  client.destroy();
  await target.close();
  rmSync(directory, { recursive: true });
});

function contents(rotationBytes: number, startBytes: number, endBytes: number): Buffer {
  return Buffer.concat([...patternPieces(PATTERN, { rotationBytes, startBytes, endBytes })]);
}

async function read(Key: string, Range?: string): Promise<Buffer> {
  const { Body } = await client.send(new GetObjectCommand({ Bucket: 'bench', Key, Range }));
  return Buffer.from((await Body?.transformToByteArray()) ?? []);
}

test('discarding server: an object in parts is given back, any range of it, though it was not kept', async () => {
  const at = { Bucket: 'bench', Key: 'large' };
  const { UploadId } = await client.send(new CreateMultipartUploadCommand(at));
  const Parts = [];
  for (const PartNumber of [1, 2]) {
    const Body = contents(3 * ROTATION_BYTES, (PartNumber - 1) * 6 * MIB, PartNumber * 6 * MIB);
    const { ETag } = await client.send(new UploadPartCommand({ ...at, UploadId, PartNumber, Body }));
    Parts.push({ PartNumber, ETag });
  }
  await client.send(new CompleteMultipartUploadCommand({ ...at, UploadId, MultipartUpload: { Parts } }));
  await assertStored(target, 'large', { objectCount: 1, sizeBytes: 12 * MIB });
  expect((await read('large')).equals(contents(3 * ROTATION_BYTES, 0, 12 * MIB))).toBe(true);
  expect(await read('large', 'bytes=7000000-7000099')).toEqual(
    contents(3 * ROTATION_BYTES, 7_000_000, 7_000_100),
  );
});

test('discarding server: small objects are kept, created once if asked, listed and deleted', async () => {
  const put = () => new PutObjectCommand({ Bucket: 'bench', Key: 'small/a', Body: 'text', IfNoneMatch: '*' });
  await client.send(put());
  await expect(client.send(put())).rejects.toThrow(/PreconditionFailed/);
  expect((await read('small/a')).toString()).toBe('text');
  await removePrefix(target, 'small/');
  await expect(assertStored(target, 'small/', { objectCount: 1, sizeBytes: 4 })).rejects.toThrow(
    /holds 0 objects/,
  );
});

test('discarding server: counts connections and requests since it was last asked, and notes checksums', async () => {
  await target.counts?.();
  const own = await s3Client(target.access);
  for (let index = 0; index < 3; index++)
    await own.send(new PutObjectCommand({ Bucket: 'bench', Key: `counted/${index}`, Body: 'text' }));
  own.destroy();
  const counts = await target.counts?.();
  expect(counts).toMatchObject({ connections: 1, requests: 3 });
  expect(counts?.checksumHeaders).toContain('PUT x-amz-sdk-checksum-algorithm: CRC32');
});
