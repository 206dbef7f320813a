/** Finds uploads in parts that are neither completed nor aborted, as each provider lists them. */

import { ListMultipartUploadsCommand, ListPartsCommand } from '@aws-sdk/client-s3';
import type { RunView } from '../crash/invariants.ts';
import { azureClientOf } from '../servers/azure-access.ts';
import type { Cloud } from '../servers/clouds.ts';
import type { CloudSuite } from '../servers/config.ts';
import { openGcsBucket } from '../servers/gcs-access.ts';
import { s3ClientOf } from '../servers/s3-access.ts';
import { partsOfBucket, type TestBucket } from '../servers/test-bucket.ts';

type OpenUploads = ReturnType<RunView['openUploads']>;

/**
 * `tokens`: those in the run's records. An upload that matches none of them gets a generated token.
 */
const FINDERS: Readonly<
  Record<CloudSuite, (run: TestBucket, tokens: readonly string[]) => Promise<OpenUploads>>
> = {
  s3: uploadsOnS3,
  gcs: uploadsOnGcs,
  azure: uploadsOnAzure,
};

export function openUploadsOf(
  { suite }: Pick<Cloud, 'suite'>,
  run: TestBucket,
  tokens: readonly string[],
): Promise<OpenUploads> {
  return FINDERS[suite](run, tokens);
}

/** Finds the token of an upload by its id. */
function byUploadId(tokens: readonly string[]): (uploadId: string) => string {
  const tokenOf = new Map(tokens.map((token) => [contentOf(token)['uploadId'], token]));
  return (uploadId) => tokenOf.get(uploadId) ?? `none recorded of ${uploadId}`;
}

async function uploadsOnS3(run: TestBucket, tokens: readonly string[]): Promise<OpenUploads> {
  const client = await s3ClientOf(run);
  const { bucket } = run;
  const prefix = `${partsOfBucket(run).prefix}/`;
  const tokenOf = byUploadId(tokens);
  try {
    // List without a prefix, because MinIO treats a prefix as a complete key.
    const { Uploads = [], IsTruncated } = await client.send(
      new ListMultipartUploadsCommand({ Bucket: bucket }),
    );
    if (IsTruncated) throw new Error(`${bucket} has more uploads than one page shows`);
    const below = Uploads.filter(({ Key = '' }) => Key.startsWith(prefix));
    return await Promise.all(
      below.map(async ({ Key = '', UploadId = '' }) => {
        const { Parts = [] } = await client.send(new ListPartsCommand({ Bucket: bucket, Key, UploadId }));
        return { key: Key.slice(prefix.length), token: tokenOf(UploadId), partCount: Parts.length };
      }),
    );
  } finally {
    client.destroy();
  }
}

/**
 * Uploads whose parts are objects, the only ones that an emulator supports. An upload is over when
 * its marker is gone. A part that arrives later belongs to no upload, and the bucket's lifecycle
 * deletes it, as the manual says.
 */
async function uploadsOnGcs(run: TestBucket, tokens: readonly string[]): Promise<OpenUploads> {
  const view = await openGcsBucket(run);
  const prefix = `${partsOfBucket(run).prefix}/.holdfast-compose/`;
  const tokenOf = byUploadId(tokens);
  const filesOf = Map.groupBy(
    await view.list(prefix),
    (name) => name.slice(prefix.length).split('/')[0] ?? '',
  );
  return [...filesOf]
    .filter(([, names]) => names.some((name) => name.endsWith('/begun')))
    .map(([id, names]) => {
      const partCount = names.filter((name) => name.includes(`${id}/part-`)).length;
      return { key: id, token: tokenOf(id), partCount };
    });
}

/**
 * Names of blocks: the id of their upload, then a number or the outcome of the upload, then a part
 * without meaning here.
 */
const BLOCK = /^([0-9a-f]{32})(.{7})[0-9a-f]{8}$/;

async function uploadsOnAzure(run: TestBucket, tokens: readonly string[]): Promise<OpenUploads> {
  const container = azureClientOf(run).getContainerClient(run.bucket);
  const prefix = `${partsOfBucket(run).prefix}/`;
  const tokenOf = byUploadId(tokens);
  const uploads: { key: string; token: string; partCount: number }[] = [];
  for await (const { name } of container.listBlobsFlat({ prefix, includeUncommitedBlobs: true })) {
    const list = await container.getBlockBlobClient(name).getBlockList('uncommitted');
    const blocks = (list.uncommittedBlocks ?? []).map(
      (block) => BLOCK.exec(Buffer.from(block.name, 'base64').toString()) ?? [],
    );
    for (const id of new Set(blocks.map(([, each = '']) => each))) {
      const rest = blocks.filter(([, each]) => each === id).map(([, , text = '']) => text);
      // The service deletes its bytes by itself.
      if (rest.includes('aborted')) continue;
      const partCount = rest.filter((text) => /^\d+$/.test(text)).length;
      uploads.push({ key: name.slice(prefix.length), token: tokenOf(id), partCount });
    }
  }
  return uploads;
}

/** Tokens are JSON in base64url. */
function contentOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token, 'base64url').toString());
}
