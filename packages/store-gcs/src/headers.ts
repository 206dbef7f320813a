import { createHash } from 'node:crypto';
import type { GcsConfig } from './config.ts';

/** The headers that the settings of a store add to its requests. */
export interface SettingHeaders {
  readonly always: Readonly<Record<string, string>>;
  /** Of every request that touches bytes: encryption by a key of the customer's. */
  readonly bytes: Readonly<Record<string, string>>;
  /** Of a copy, for its source. */
  readonly copySource: Readonly<Record<string, string>>;
  /** What begins an upload in parts says of the object. */
  readonly newObject: Readonly<Record<string, string>>;
}

/** Bytes come back as they were sent: neither unpacked nor packed on their way. */
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
