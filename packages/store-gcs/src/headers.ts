import { createHash } from 'node:crypto';
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
    bytes: customerKeyHeaders('x-goog-', customerKey?.reveal()),
    copySource: customerKeyHeaders('x-goog-copy-source-', customerKey?.reveal()),
    newObject: {
      'content-type': CONTENT_TYPE,
      'cache-control': CACHE_CONTROL,
      ...(storageClass !== undefined && { 'x-goog-storage-class': storageClass }),
      ...(kmsKey !== undefined && { 'x-goog-encryption-kms-key-name': kmsKey }),
    },
  };
}

function customerKeyHeaders(prefix: string, key: string | undefined): Record<string, string> {
  if (key === undefined) return {};
  return {
    [`${prefix}encryption-algorithm`]: 'AES256',
    [`${prefix}encryption-key`]: key,
    [`${prefix}encryption-key-sha256`]: createHash('sha256').update(key, 'base64').digest('base64'),
  };
}
