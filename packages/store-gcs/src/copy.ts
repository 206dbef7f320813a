/** Copies inside GCS: the store moves the bytes, in as many steps as it needs. */

import { HttpRefusal, type StoreSubject } from '@holdfast/cloud-http';
import type { CopyOptions, ObjectInfo } from '@holdfast/core/contract';
import { infoOf } from './answers.ts';
import { storeError } from './errors.ts';
import type { GcsObjects, RewriteAnswer } from './objects.ts';
import { written } from './written.ts';

export interface CopySource extends StoreSubject {
  readonly bucket: string;
  /** In its bucket. */
  readonly name: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface CopyTarget extends StoreSubject {
  readonly key: string;
  readonly name: string;
}

/** Null: the credentials cannot access both. */
export async function copyObject(
  objects: GcsObjects,
  source: CopySource,
  target: CopyTarget,
  { sizeBytes, onProgress, signal }: CopyOptions,
): Promise<ObjectInfo | null> {
  let step: RewriteAnswer | undefined;
  do {
    try {
      step = await objects.rewrite({
        sourceBucket: source.bucket,
        sourceName: source.name,
        headers: source.headers,
        name: target.name,
        rewriteToken: step?.rewriteToken,
        signal,
      });
    } catch (error) {
      if (!(error instanceof HttpRefusal)) throw error;
      if (step === undefined && error.status === 403) return null;
      // Something is missing, and it is not the bucket: so it is the source.
      if (error.status === 404) throw storeError(error, 'read', source);
      throw error;
    }
    onProgress?.(step.copiedBytes);
  } while (step.object === undefined);
  const object = await written(objects, target, step.object, { sizeBytes });
  return { key: target.key, ...infoOf(object), crc32c: object.crc32c };
}
