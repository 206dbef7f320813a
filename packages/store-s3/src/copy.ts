/** Copies inside S3: CopyObject, and UploadPartCopy in ranges for larger objects. */

import {
  type CopyLimits,
  type CopyPlan,
  crcOfBase64,
  crcOfParts,
  dateMs,
  type ObjectPlace,
  plainEtag,
  planCopy,
  textOf,
} from '@holdfast/cloud-http';
import {
  atATime,
  type CopyOptions,
  isCheckpointError,
  type ObjectInfo,
  type PartReceipt,
} from '@holdfast/core/contract';
import { documentOf } from './answers.ts';
import { foreignSuccess } from './errors.ts';
import { beginUpload, type S3Upload, type S3UploadHome } from './upload.ts';

const MIB = 1024 * 1024;

/**
 * One request moves some hundred MB/s at best, so larger parts would exceed request timeouts. S3
 * itself takes 5 GiB: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html.
 */
const COPY_LIMITS: CopyLimits = {
  wholeBytesMax: 256 * MIB,
  partBytesMin: 5 * MIB,
  partBytesMax: 256 * MIB,
  partCountMax: 10_000,
};

/** Concurrent requests of one copy. They load the store, not this process. */
const PARTS_AT_A_TIME = 8;
/** The caller that aborted the copy waits for the clean-up this long. */
const ABORT_TIMEOUT_MS = 5000;

export interface CopySource {
  readonly bucket: string;
  /** The key in the bucket. */
  readonly path: string;
}

export async function copyObject(
  store: S3UploadHome,
  source: CopySource,
  target: ObjectPlace,
  options: CopyOptions,
  limits: CopyLimits = COPY_LIMITS,
): Promise<ObjectInfo> {
  const plan = planCopy(options.sizeBytes, limits);
  if (plan === null) return copyWhole(store, source, target, options);
  try {
    return await copyInParts(store, source, target, plan, options);
  } catch (error) {
    // MinIO (of February 2026) requires checksums of the parts that it copies itself, but does not
    // compute them.
    const isChecksumMissing = store.checksumsCopies && isCheckpointError(error, 'InvalidArgument');
    if (!isChecksumMissing) throw error;
    store.checksumsCopies = false;
    return copyInParts(store, source, target, plan, options);
  }
}

async function copyInParts(
  store: S3UploadHome,
  source: CopySource,
  target: ObjectPlace,
  plan: CopyPlan,
  options: CopyOptions,
): Promise<ObjectInfo> {
  const checked = store.checksumsCopies ? store : { ...store, checksum: 'none' as const };
  const upload = await beginUpload(checked, target, plan.partSizeBytes, options.signal);
  try {
    const parts = await copyParts(upload, source, plan, options);
    return await completed(upload, parts, options);
  } catch (error) {
    // No other process knows of the upload. If this fails too, the bucket's rule for incomplete
    // uploads removes it.
    await upload.abort({ signal: AbortSignal.timeout(ABORT_TIMEOUT_MS) }).catch(() => undefined);
    throw error;
  }
}

async function copyWhole(
  store: S3UploadHome,
  source: CopySource,
  { key, path }: ObjectPlace,
  { sizeBytes, signal, onProgress }: CopyOptions,
): Promise<ObjectInfo> {
  const answer = await store.connection.send({
    operation: 'create',
    method: 'PUT',
    key: path,
    headers: {
      'x-amz-copy-source': copySource(source),
      'if-none-match': '*',
      ...(store.checksum !== 'none' && { 'x-amz-checksum-algorithm': 'CRC32C' }),
    },
    signal,
  });
  const { headers } = answer;
  const xml = documentOf(answer);
  const etag = textOf(xml, 'ETag');
  if (!etag) throw foreignSuccess({ status: 200, headers });
  onProgress?.(sizeBytes);
  const info = { key, sizeBytes, etag: plainEtag(etag), createdAtMs: dateMs(headers['date']) };
  const isWhole = textOf(xml, 'ChecksumType') !== 'COMPOSITE';
  return { ...info, crc32c: isWhole ? crcOfBase64(textOf(xml, 'ChecksumCRC32C')) : undefined };
}

function copyParts(
  upload: S3Upload,
  source: CopySource,
  { ranges }: CopyPlan,
  { signal, onProgress }: CopyOptions,
): Promise<PartReceipt[]> {
  let copiedBytes = 0;
  // When this rejects, no request is pending any more, so the upload can be aborted.
  return atATime(ranges, PARTS_AT_A_TIME, async (range, index) => {
    const part = await upload.copyPart(index, { source: copySource(source), ...range }, { signal });
    copiedBytes += range.end - range.start;
    onProgress?.(copiedBytes);
    return part;
  });
}

async function completed(
  upload: S3Upload,
  parts: readonly PartReceipt[],
  { sizeBytes, signal }: CopyOptions,
): Promise<ObjectInfo> {
  const crc32c = crcOfParts(parts);
  const info = await upload.complete(parts, { sizeBytes, crc32c, signal });
  return { ...info, crc32c };
}

function copySource({ bucket, path }: CopySource): string {
  return `${bucket}/${path.split('/').map(encodeURIComponent).join('/')}`;
}
