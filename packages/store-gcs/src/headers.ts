import { customerKeyHeaders } from '@holdfast/cloud-http';
import type { GcsConfig } from './config.ts';

/** Headers that the store's settings add to its requests. */
export interface SettingHeaders {
  readonly always: Readonly<Record<string, string>>;
  /** For every request that touches bytes: customer-supplied encryption key. */
  readonly bytes: Readonly<Record<string, string>>;
  /** For the source of a copy. */
  readonly copySource: Readonly<Record<string, string>>;
  /** For the request that begins a multipart upload: properties of the new object. */
  readonly newObject: Readonly<Record<string, string>>;
}

/** Prevents the server from compressing or decompressing the bytes. */
export const CONTENT_TYPE = 'application/octet-stream';
export const CACHE_CONTROL = 'no-transform';

export function settingHeaders({
  userProject,
  customerKey,
  storageClass,
  kmsKey,
}: GcsConfig): SettingHeaders {
  return {
    always: userProject === undefined ? {} : { 'x-goog-user-project': userProject },
    bytes: customerKeyHeaders('x-goog-', customerKey),
    copySource: customerKeyHeaders('x-goog-copy-source-', customerKey),
    newObject: {
      'content-type': CONTENT_TYPE,
      'cache-control': CACHE_CONTROL,
      ...(storageClass !== undefined && { 'x-goog-storage-class': storageClass }),
      ...(kmsKey !== undefined && { 'x-goog-encryption-kms-key-name': kmsKey }),
    },
  };
}
