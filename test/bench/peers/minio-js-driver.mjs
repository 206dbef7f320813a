/** minio-js: `fPutObject` and `fGetObject`, several files at a time. */

import { forEach, isWanted, job, load, localFiles, localPath, measure } from './driver.mjs';

const { Client } = load('minio');

const LARGE_BYTES = 16 * 1024 * 1024;
const LARGE_FILES = 4;
const SMALL_FILES = 50;

function client() {
  const { protocol, hostname, port } = new URL(job.endpoint);
  return new Client({
    endPoint: hostname,
    port: Number(port || (protocol === 'https:' ? 443 : 80)),
    useSSL: protocol === 'https:',
    region: job.region,
    pathStyle: true,
    partSize: LARGE_BYTES,
    accessKey: process.env.AWS_ACCESS_KEY_ID,
    secretKey: process.env.AWS_SECRET_ACCESS_KEY,
    sessionToken: process.env.AWS_SESSION_TOKEN,
  });
}

async function upload() {
  const minio = client();
  const files = localFiles();
  const limit = files.some(({ size }) => size > LARGE_BYTES) ? LARGE_FILES : SMALL_FILES;
  await forEach(files, limit, ({ name, path }) => minio.fPutObject(job.bucket, job.prefix + name, path));
}

async function download() {
  const minio = client();
  const listed = await minio.listObjectsV2(job.bucket, job.prefix, true).toArray();
  const objects = listed.filter(({ name }) => isWanted(name));
  const limit = objects.some(({ size }) => size > LARGE_BYTES) ? LARGE_FILES : SMALL_FILES;
  await forEach(objects, limit, ({ name }) => minio.fGetObject(job.bucket, name, localPath(name)));
}

await measure({ upload, download });
