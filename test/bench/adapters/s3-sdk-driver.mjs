/** `Upload` of @aws-sdk/lib-storage and `GetObject` of @aws-sdk/client-s3 with their defaults. */

import { job, load, measure } from '../peers/driver.mjs';
import { assertArrived, sourceMemory } from './memory.mjs';

const { S3Client, GetObjectCommand } = load('@aws-sdk/client-s3');
const { Upload } = load('@aws-sdk/lib-storage');

const memory = job.action === 'upload' ? sourceMemory() : null;
const at = { Bucket: job.bucket, Key: job.sdkName };
let downloaded;

function client() {
  return new S3Client({ endpoint: job.endpoint, region: 'us-east-1', forcePathStyle: true });
}

await measure({
  upload: () => new Upload({ client: client(), params: { ...at, Body: memory } }).done(),
  'download to memory': async () => {
    const { Body } = await client().send(new GetObjectCommand(at));
    downloaded = await Body.transformToByteArray();
  },
});
if (downloaded) assertArrived(Buffer.from(downloaded.buffer, downloaded.byteOffset, downloaded.byteLength));
