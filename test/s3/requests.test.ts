/**
 * Each request of the store beside the same request of the AWS SDK, at one server: the same method,
 * path, query, headers and body. Both read its answer alike.
 */

import * as aws from '@aws-sdk/client-s3';
import type { ObjectStore } from '@holdfast/core/contract';
import { expect, onTestFinished, test } from 'vitest';
import { allPages, type Script } from '../scripted/scripted-server.ts';
import {
  KEYS,
  listing,
  type ScriptedS3,
  type SeenRequest,
  scriptedS3,
  uploadGoesWell,
} from './scripted-s3.ts';

const BUCKET = { Bucket: 'runs' };
/** Every character that a key may have and that some encoding treats differently. */
const ODD = "a b!'()*~+&=@$,;:ü-\u{1f511}";
const PART_BYTES = 5 * 1024 * 1024;

function sdkOn({ endpoint }: ScriptedS3): aws.S3Client {
  const sdk = new aws.S3Client({
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId: KEYS.AWS_ACCESS_KEY_ID, secretAccessKey: KEYS.AWS_SECRET_ACCESS_KEY },
    maxAttempts: 1,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  onTestFinished(() => sdk.destroy());
  return sdk;
}

/** Headers that each client sets in its own way, and that mean nothing to the store. */
const OF_CLIENT = /^(authorization|x-amz-date|host|connection|user-agent|x-amz-user-agent|amz-sdk-.*)$/;

function meaningOf({ method, path, query, headers, body, signatureFault }: SeenRequest) {
  const asked = Object.fromEntries([...query].filter(([name]) => name !== 'x-id'));
  const told = Object.entries(headers).filter(([name]) => !OF_CLIENT.test(name));
  return { method, path, asked, told: Object.fromEntries(told), body: body.toString(), signatureFault };
}

const COPIED =
  '<CopyPartResult><ETag>"c"</ETag><LastModified>2026-11-21T10:00:00.000Z</LastModified></CopyPartResult>';

const script: Script = (request, index) => {
  const { method, query, headers } = request;
  if (query.has('list-type')) return listing('gpt/a', 'gpt/b');
  if (query.has('delete')) return { body: '<DeleteResult></DeleteResult>' };
  if (headers['x-amz-copy-source'] !== undefined)
    return { body: COPIED.replaceAll('Part', query.has('uploadId') ? 'Part' : 'Object') };
  if (method === 'GET' && query.has('uploads'))
    return {
      body: '<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>',
    };
  if (method === 'DELETE') return { status: 204 };
  return uploadGoesWell(request, index);
};

type Act = (
  store: ObjectStore,
  sdk: aws.S3Client,
) => readonly [() => Promise<unknown>, () => Promise<unknown>];

async function begun(store: ObjectStore) {
  return store.beginUpload(ODD, { partSizeBytes: PART_BYTES });
}

const UPLOAD = { ...BUCKET, Key: `gpt/${ODD}`, UploadId: 'UPLOAD-1' };

test.each<[string, Act]>([
  [
    'a listing',
    (store, sdk) => [
      () => allPages(store, { startAfter: ODD }),
      () => sdk.send(new aws.ListObjectsV2Command({ ...BUCKET, Prefix: 'gpt/', StartAfter: `gpt/${ODD}` })),
    ],
  ],
  [
    'a batch of deletes',
    (store, sdk) => {
      const Delete = { Quiet: true, Objects: [{ Key: `gpt/${ODD}` }, { Key: 'gpt/b' }] };
      return [
        () => store.deleteMany([ODD, 'b']),
        () => sdk.send(new aws.DeleteObjectsCommand({ ...BUCKET, Delete })),
      ];
    },
  ],
  [
    'the beginning of an upload',
    (store, sdk) => [
      () => begun(store),
      () =>
        sdk.send(
          new aws.CreateMultipartUploadCommand({
            ...BUCKET,
            Key: `gpt/${ODD}`,
            ChecksumAlgorithm: 'CRC32C',
            ChecksumType: 'FULL_OBJECT',
          }),
        ),
    ],
  ],
  [
    'the uploads',
    (store, sdk) => [
      async () => {
        for await (const _ of store.listUploads?.('') ?? []) throw new Error('an upload was listed');
      },
      () => sdk.send(new aws.ListMultipartUploadsCommand({ ...BUCKET, Prefix: 'gpt/' })),
    ],
  ],
  [
    'the parts of an upload',
    (store, sdk) => [
      async () => (await begun(store)).listParts(),
      () => sdk.send(new aws.ListPartsCommand(UPLOAD)),
    ],
  ],
  [
    'the end of an upload',
    (store, sdk) => [
      async () => {
        const parts = [{ index: 0, sizeBytes: 3, crc32c: 1, etag: 'e"1' }];
        await (await begun(store)).complete(parts, { sizeBytes: 3, crc32c: 1 });
      },
      () =>
        sdk.send(
          new aws.CompleteMultipartUploadCommand({
            ...UPLOAD,
            MultipartUpload: { Parts: [{ PartNumber: 1, ETag: 'e"1', ChecksumCRC32C: 'AAAAAQ==' }] },
            ChecksumType: 'FULL_OBJECT',
            ChecksumCRC32C: 'AAAAAQ==',
            MpuObjectSize: 3,
          }),
        ),
    ],
  ],
  [
    'the abort of an upload',
    (store, sdk) => [
      async () => (await begun(store)).abort(),
      () => sdk.send(new aws.AbortMultipartUploadCommand(UPLOAD)),
    ],
  ],
  [
    'a copy',
    (store, sdk) => [
      () => store.copyFrom?.(store, ODD, 'k', { sizeBytes: 3 }) ?? Promise.reject(new Error('no copies')),
      () =>
        sdk.send(
          new aws.CopyObjectCommand({
            ...BUCKET,
            Key: 'gpt/k',
            CopySource: `runs/gpt/${encodeURIComponent(ODD)}`,
            IfNoneMatch: '*',
            ChecksumAlgorithm: 'CRC32C',
          }),
        ),
    ],
  ],
])('%s', async (_name, act) => {
  const server = await scriptedS3(script);
  const [ours, theirs] = act(await server.open(), sdkOn(server));
  await ours();
  const own = server.requests.at(-1) as SeenRequest;
  await theirs();
  expect(meaningOf(own)).toEqual(meaningOf(server.requests.at(-1) as SeenRequest));
  expect(meaningOf(own).signatureFault).toBeUndefined();
});
