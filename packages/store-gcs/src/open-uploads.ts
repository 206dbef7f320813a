/** Lists the incomplete uploads of a bucket. */

import { encodeToken, PART_SIZE_UNKNOWN } from '@holdfast/cloud-http';
import { isObjectKey, type OpenUpload } from '@holdfast/core/contract';
import { listComposeUploads } from './compose-upload.ts';
import { listMultipartUploads } from './multipart-upload.ts';
import type { GcsUploadHome, Token } from './upload-home.ts';

/** Lists the uploads of the strategy that is set. */
export async function* listUploads(
  home: GcsUploadHome,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<OpenUpload, void, void> {
  const { uploads, root } = home.config;
  if (uploads === 'compose') {
    for await (const { key, uploadId, partSizeBytes, ...facts } of listComposeUploads(home, signal)) {
      const token = encodeToken({ strategy: 'compose', key, uploadId, partSizeBytes } satisfies Token);
      if (key.startsWith(prefix) && isObjectKey(key)) yield { key, token, ...facts };
    }
    return;
  }
  for await (const { name, uploadId, beganAtMs } of listMultipartUploads(home, root + prefix, signal)) {
    const key = name.slice(root.length);
    const partSizeBytes = PART_SIZE_UNKNOWN;
    const token = encodeToken({ strategy: 'multipart', key, uploadId, partSizeBytes } satisfies Token);
    if (name.startsWith(root + prefix) && isObjectKey(key)) yield { key, token, beganAtMs };
  }
}
