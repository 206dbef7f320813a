/** Uploads in parts. How they are sent is a setting; how one goes on says its token, whatever is set by now. */

import { decodeToken, objectError, type StoreCalls } from '@holdfast/cloud-http';
import type { StoreCapabilities, Upload } from '@holdfast/core/contract';
import type { GcsConnection } from './client.ts';
import { ComposeUpload } from './compose-upload.ts';
import type { GcsConfig, UploadStrategy } from './config.ts';
import { MultipartUpload } from './multipart-upload.ts';
import type { GcsObjects } from './objects.ts';
import { SingleUpload } from './single-upload.ts';

/** What uploads share with their store. */
export interface UploadHome {
  readonly config: GcsConfig;
  readonly connection: GcsConnection;
  readonly objects: GcsObjects;
  readonly capabilities: StoreCapabilities;
  readonly calls: StoreCalls;
}

/** Stored as JSON in base64url. */
export interface UploadToken {
  readonly strategy: UploadStrategy;
  readonly key: string;
  readonly uploadId: string;
  readonly partSizeBytes: number;
}

/** The key as the engine knows it, and as it is in the bucket. */
export interface Place {
  readonly key: string;
  readonly path: string;
}

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
      Number(partSizeBytes) > 0,
  );
  if (token.strategy === 'single')
    throw objectError('Unsupported', subject, 'cannot resume an upload that was begun with uploads=single');
  const Strategy = STRATEGIES[token.strategy];
  const upload = new Strategy(home, pathOf(token.key), token);
  await upload.listParts({ signal }); // tells whether it is still there
  return upload;
}
