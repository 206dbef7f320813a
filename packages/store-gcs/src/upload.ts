/**
 * Uploads in parts. A setting selects the strategy for new uploads. A resumed upload keeps the
 * strategy in its token.
 */

import { decodeToken, type ObjectPlace, objectError, PART_SIZE_UNKNOWN } from '@holdfast/cloud-http';
import type { Upload } from '@holdfast/core/contract';
import { ComposeUpload } from './compose-upload.ts';
import { MultipartUpload } from './multipart-upload.ts';
import { SingleUpload } from './single-upload.ts';
import type { GcsUploadHome, Token } from './upload-home.ts';

const STRATEGIES = { multipart: MultipartUpload, compose: ComposeUpload } as const;

export function beginUpload(
  home: GcsUploadHome,
  place: ObjectPlace,
  partSizeBytes: number,
  signal: AbortSignal | undefined,
): Promise<Upload> {
  const { uploads } = home.config;
  if (uploads === 'single') return Promise.resolve(new SingleUpload(home, place, partSizeBytes));
  return STRATEGIES[uploads].begin(home, place, partSizeBytes, signal);
}

/** The upload of a token. Sends nothing. */
export function uploadOf(home: GcsUploadHome, placeOf: (key: string) => ObjectPlace, text: string): Upload {
  const subject = { store: home.config.uri };
  const token = decodeToken<Token>(
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
  return new Strategy(home, placeOf(token.key).path, token);
}
