/**
 * `Upload` of @aws-sdk/lib-storage from a stream. Downloads use parallel ranges, because the SDK
 * has no download of its own.
 */

import { createReadStream } from 'node:fs';
import { open, readFile, writeFile } from 'node:fs/promises';
import { forEach, isWanted, job, load, localFiles, localPath, measure } from './driver.mjs';

const { S3Client, PutObjectCommand, GetObjectCommand, paginateListObjectsV2 } = load('@aws-sdk/client-s3');
const { Upload } = load('@aws-sdk/lib-storage');

const PART_BYTES = 16 * 1024 * 1024;
const PART_REQUESTS = 8;
const SMALL_REQUESTS = 50; // the SDK's own socket limit

function client() {
  return new S3Client({ endpoint: job.endpoint, region: job.region, forcePathStyle: true });
}

async function upload() {
  const s3 = client();
  const files = localFiles();
  const isLarge = ({ size }) => size > PART_BYTES;
  const target = ({ name }) => ({ Bucket: job.bucket, Key: job.prefix + name });
  await forEach(files.filter(isLarge), 4, (file) => {
    const Body = createReadStream(file.path, { highWaterMark: 1024 * 1024 });
    const params = { ...target(file), Body };
    return new Upload({ client: s3, params, partSize: PART_BYTES, queueSize: PART_REQUESTS }).done();
  });
  const small = files.filter((file) => !isLarge(file));
  await forEach(small, SMALL_REQUESTS, async (file) => {
    await s3.send(new PutObjectCommand({ ...target(file), Body: await readFile(file.path) }));
  });
  s3.destroy();
}

async function getBytes(s3, Key, Range) {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket: job.bucket, Key, Range }));
  return Body.transformToByteArray();
}

async function downloadLarge(s3, { Key, Size }) {
  const file = await open(localPath(Key), 'w');
  const starts = Array.from({ length: Math.ceil(Size / PART_BYTES) }, (_, index) => index * PART_BYTES);
  await forEach(starts, PART_REQUESTS, async (start) => {
    const bytes = await getBytes(s3, Key, `bytes=${start}-${Math.min(start + PART_BYTES, Size) - 1}`);
    await file.write(bytes, 0, bytes.length, start);
  });
  await file.close();
}

async function download() {
  const s3 = client();
  const objects = [];
  for await (const page of paginateListObjectsV2({ client: s3 }, { Bucket: job.bucket, Prefix: job.prefix }))
    objects.push(...(page.Contents ?? []).filter(({ Key }) => isWanted(Key)));
  const isLarge = ({ Size }) => Size > PART_BYTES;
  await forEach(objects.filter(isLarge), 2, (object) => downloadLarge(s3, object));
  const small = objects.filter((object) => !isLarge(object));
  await forEach(small, SMALL_REQUESTS, async ({ Key }) => writeFile(localPath(Key), await getBytes(s3, Key)));
  s3.destroy();
}

async function range() {
  const s3 = client();
  const [start, end] = job.range;
  const Key = job.prefix + job.only;
  await writeFile(localPath(Key), await getBytes(s3, Key, `bytes=${start}-${end - 1}`));
  s3.destroy();
}

await measure({ upload, download, range });
