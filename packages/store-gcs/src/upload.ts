/**
 * Uploads in parts. A setting selects the strategy for new uploads. A resumed upload keeps the
 * strategy in its token.
 */

import { decodeToken, encodeToken, objectError, PART_SIZE_UNKNOWN } from '@holdfast/cloud-http';
import { isObjectKey, type OpenUpload, type Upload } from '@holdfast/core/contract';
import { ComposeUpload, listComposeUploads } from './compose-upload.ts';
import { listMultipartUploads, MultipartUpload } from './multipart-upload.ts';
import { SingleUpload } from './single-upload.ts';
import type { Place, UploadHome, UploadToken } from './upload-home.ts';

const STRATEGIES = { multipart: MultipartUpload, compose: ComposeUpload } as const;

export function beginUpload(
  home: UploadHome,
  place: Place,
  partSizeBytes: number,
  signal: AbortSignal | undefined,
): Promise<Upload> {
  const { uploads } = home.config;
  if (uploads === 'single') return Promise.resolve(new SingleUpload(home, place, partSizeBytes));
  return STRATEGIES[uploads].begin(home, place, partSizeBytes, signal);
}

/** Lists the uploads of the strategy that is set. */
export async function* listUploads(
  home: UploadHome,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<OpenUpload, void, void> {
  const { uploads, root } = home.config;
  if (uploads === 'compose') {
    for await (const { key, uploadId, partSizeBytes, ...facts } of listComposeUploads(home, signal)) {
      const token = encodeToken({ strategy: 'compose', key, uploadId, partSizeBytes } satisfies UploadToken);
      if (key.startsWith(prefix) && isObjectKey(key)) yield { key, token, ...facts };
    }
    return;
  }
  for await (const { name, uploadId, beganAtMs } of listMultipartUploads(home, root + prefix, signal)) {
    const key = name.slice(root.length);
    const partSizeBytes = PART_SIZE_UNKNOWN;
    const token = encodeToken({ strategy: 'multipart', key, uploadId, partSizeBytes } satisfies UploadToken);
    if (name.startsWith(root + prefix) && isObjectKey(key)) yield { key, token, beganAtMs };
  }
}

export async function resumeUpload(
  home: UploadHome,
  pathOf: (key: string) => string,
  text: string,
  signal: AbortSignal | undefined,
): Promise<Upload> {
  const subject = { store: home.config.uri };
  const token = decodeToken<UploadToken>(
    subject,
    text,
    ({ strategy, key, uploadId, partSizeBytes }) =>
      (strategy === 'multipart' || strategy === 'compose' || strategy === 'single') &&
      typeof key === 'string' &&
      typeof uploadId === 'string' &&
      /^[\w.~+=-]+$/.test(uploadId) &&
      Number.isSafeInteger(partSizeBytes) &&
      Number(partSizeBytes) >= PART_SIZE_UNKNOWN,
  );
  if (token.strategy === 'single')
    throw objectError('Unsupported', subject, 'cannot resume an upload that was begun with uploads=single');
  const Strategy = STRATEGIES[token.strategy];
  const upload = new Strategy(home, pathOf(token.key), token);
  await upload.listParts({ signal }); // Fails if the upload is gone.
  return upload;
}
