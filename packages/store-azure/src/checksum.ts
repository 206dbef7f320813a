import { createHash } from 'node:crypto';
import type { AzureConfig } from './config.ts';

/**
 * The one checksum of a body that Azure verifies and that Node computes at speed; some 0.9 GB/s, so
 * only where it is wanted.
 */
export function md5Header({ contentMd5 }: AzureConfig, body: Uint8Array): Record<string, string> {
  return contentMd5 ? { 'content-md5': createHash('md5').update(body).digest('base64') } : {};
}
