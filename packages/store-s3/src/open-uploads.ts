/** Lists the incomplete uploads of a bucket, page by page. */

import { encodeToken, objectError, PART_SIZE_UNKNOWN } from '@holdfast/cloud-http';
import { isObjectKey, type OpenUpload } from '@holdfast/core/contract';
import { documentOf, parseUploadList, type UploadList } from './answers.ts';
import type { S3UploadHome, Token } from './upload.ts';

interface Page {
  readonly list: UploadList;
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
  let position = { keyMarker: '', uploadIdMarker: '' };
  for (;;) {
    const { list, isPrefixWholeKey } = await store.calls.run({ action: 'list the uploads of', signal }, () =>
      requestPage(store, asked, position, signal),
    );
    if (isPrefixWholeKey && asked !== '') {
      asked = '';
      continue;
    }
    for (const { key: found, uploadId, beganAtMs } of list.uploads) {
      const key = found.slice(root.length);
      if (!found.startsWith(path) || !isObjectKey(key)) continue;
      const token: Token = { key, uploadId, partSizeBytes: PART_SIZE_UNKNOWN, checksum: 'none' };
      yield { key, token: encodeToken(token), beganAtMs };
    }
    if (!list.isTruncated) return;
    const { nextKeyMarker: keyMarker, nextUploadIdMarker: uploadIdMarker } = list;
    if (keyMarker === position.keyMarker && uploadIdMarker === position.uploadIdMarker)
      throw objectError(
        'Unexpected',
        { store: uri },
        'returned a page of uploads that does not name the next page',
      );
    position = { keyMarker, uploadIdMarker };
  }
}

async function requestPage(
  { connection }: S3UploadHome,
  prefix: string,
  { keyMarker, uploadIdMarker }: { keyMarker: string; uploadIdMarker: string },
  signal: AbortSignal | undefined,
): Promise<Page> {
  const answer = await connection.send({
    operation: 'other',
    method: 'GET',
    query: {
      uploads: '',
      ...(prefix !== '' && { prefix }),
      ...(keyMarker !== '' && { 'key-marker': keyMarker, 'upload-id-marker': uploadIdMarker }),
    },
    isRepeatable: true,
    signal,
  });
  // A listing must not be taken for another one: it would show nothing.
  const list = parseUploadList(documentOf(answer, /^(\w+:)?ListMultipartUploadsResult$/));
  return { list, isPrefixWholeKey: answer.headers['server'] === 'MinIO' };
}
