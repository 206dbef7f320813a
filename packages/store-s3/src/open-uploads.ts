/** Lists the incomplete uploads of a bucket, page by page. */

import { ListMultipartUploadsCommand, type ListMultipartUploadsOutput } from '@aws-sdk/client-s3';
import { encodeToken, objectError, PART_SIZE_UNKNOWN } from '@holdfast/cloud-http';
import { isObjectKey, type OpenUpload } from '@holdfast/core/contract';
import type { S3UploadHome, Token } from './upload.ts';

interface Page {
  readonly output: ListMultipartUploadsOutput;
  /**
   * MinIO (of February 2026) treats a prefix as a whole key. Without a prefix it lists all uploads
   * of the bucket that it still knows.
   */
  readonly isPrefixWholeKey: boolean;
}

export async function* listUploads(
  store: S3UploadHome,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<OpenUpload, void, void> {
  const { root, uri } = store.config;
  const path = root + prefix;
  let asked = path;
  let position = { KeyMarker: '', UploadIdMarker: '' };
  for (;;) {
    const { output, isPrefixWholeKey } = await store.calls.run(
      { action: 'list the uploads of', signal },
      () => requestPage(store, asked, position, signal),
    );
    if (isPrefixWholeKey && asked !== '') {
      asked = '';
      continue;
    }
    for (const { Key = '', UploadId = '', Initiated } of output.Uploads ?? []) {
      const key = Key.slice(root.length);
      if (!Key.startsWith(path) || !isObjectKey(key)) continue;
      const token: Token = { key, uploadId: UploadId, partSizeBytes: PART_SIZE_UNKNOWN, checksum: 'none' };
      yield { key, token: encodeToken(token), beganAtMs: Initiated?.getTime() ?? 0 };
    }
    if (output.IsTruncated !== true) return;
    const { NextKeyMarker: KeyMarker = '', NextUploadIdMarker: UploadIdMarker = '' } = output;
    if (KeyMarker === position.KeyMarker && UploadIdMarker === position.UploadIdMarker)
      throw objectError(
        'Unexpected',
        { store: uri },
        'returned a page of uploads that does not name the next page',
      );
    position = { KeyMarker, UploadIdMarker };
  }
}

async function requestPage(
  { config, connection }: S3UploadHome,
  Prefix: string,
  { KeyMarker, UploadIdMarker }: { KeyMarker: string; UploadIdMarker: string },
  signal: AbortSignal | undefined,
): Promise<Page> {
  const { output, headers } = await connection.command(signal, (sdk, options) =>
    sdk.send(
      new ListMultipartUploadsCommand({
        Bucket: config.bucket,
        ...(Prefix !== '' && { Prefix }),
        ...(KeyMarker !== '' && { KeyMarker, UploadIdMarker }),
      }),
      options,
    ),
  );
  return { output, isPrefixWholeKey: headers['server'] === 'MinIO' };
}
