/**
 * Copies inside an account: the store fetches the bytes itself, by a URL that authorizes it. Small
 * blobs need one request. Large ones are copied as blocks that become visible together. Azure's
 * older copy, which continues in the background, is not used: it shows an empty blob meanwhile.
 */

import { randomUUID } from 'node:crypto';
import {
  type CopyLimits,
  type CopyPlan,
  type CopyRange,
  objectError,
  plainEtag,
  planCopy,
  replaced,
  type TransportAnswer,
} from '@holdfast/cloud-http';
import { atATime, type CopyOptions, type ObjectInfo } from '@holdfast/core/contract';
import { commitBlocks } from './blocks.ts';
import type { AzureConnection } from './client.ts';
import { AzureRefusal, type AzureSubject, foreignSuccess, storeError } from './errors.ts';
import { writtenBlob } from './objects.ts';

const MIB = 1024 * 1024;
/** Azure accepts blocks of 4,000 MiB. Smaller ones show the progress of a copy. */
const COPY_LIMITS: CopyLimits = {
  wholeBytesMax: 256 * MIB,
  partBytesMin: 1,
  partBytesMax: 256 * MIB,
  partCountMax: 50_000,
};
const BLOCKS_AT_A_TIME = 8;
/** Longest source URL that Azure accepts, including its SAS. */
const SOURCE_URL_LENGTH_MAX = 2048;

/** One end of a copy. */
export interface CopyEnd extends AzureSubject {
  readonly key: string;
  readonly connection: AzureConnection;
  /** Name of the blob. */
  readonly blob: string;
}

interface Copy {
  readonly source: CopyEnd;
  readonly target: CopyEnd;
  /** Headers about the source, sent with each request. */
  readonly headers: Readonly<Record<string, string>>;
  readonly metadata: Readonly<Record<string, string>>;
  readonly options: CopyOptions;
}

/**
 * Null: the credentials cannot authorize the store to fetch the source, or the server does not
 * copy.
 */
export async function copyBlob(
  source: CopyEnd,
  target: CopyEnd,
  options: CopyOptions,
): Promise<ObjectInfo | null> {
  const { sizeBytes, signal } = options;
  const { headers: found } = await headOf(source, signal);
  const foundBytes = Number(found['content-length']);
  if (foundBytes !== sizeBytes)
    throw objectError('Corrupt', source, `has ${foundBytes} bytes; expected ${sizeBytes}`);
  const access = await source.connection.sourceAccess(source.blob, signal);
  if (access === null || access.url.length > SOURCE_URL_LENGTH_MAX) return null;
  const crc32c = found['x-ms-meta-crc32c'];
  const copy: Copy = {
    source,
    target,
    headers: {
      'x-ms-copy-source': access.url,
      'x-ms-source-if-match': found['etag'] ?? '*',
      ...access.headers,
    },
    metadata: crc32c === undefined ? {} : { 'x-ms-meta-crc32c': crc32c },
    options,
  };
  try {
    const plan = planCopy(sizeBytes, COPY_LIMITS);
    const answer = await (plan === null ? copyWhole(copy) : copyBlocks(copy, plan));
    options.onProgress?.(sizeBytes);
    return { key: target.key, ...writtenBlob(answer, sizeBytes) };
  } catch (error) {
    if (!(error instanceof AzureRefusal)) throw error;
    if (isOutOfReach(error)) return null;
    if (error.code === 'SourceConditionNotMet') throw replaced(source, plainEtag(found['etag']), error);
    throw error;
  }
}

async function headOf(source: CopyEnd, signal: AbortSignal | undefined): Promise<TransportAnswer> {
  const { connection, blob } = source;
  const request = { operation: 'read', method: 'HEAD', blob, isRepeatable: true, signal } as const;
  const answer = await connection.send(request).catch((error: unknown) => {
    // The error concerns the source, not the subject of the call.
    throw error instanceof AzureRefusal ? storeError(error, 'look at', source) : error;
  });
  if (answer.headers['content-length'] === undefined) throw foreignSuccess(answer);
  return answer;
}

async function copyWhole({ target, headers, metadata, options }: Copy): Promise<TransportAnswer> {
  const answer = await target.connection.send({
    operation: 'copy',
    method: 'PUT',
    blob: target.blob,
    headers: { ...headers, ...metadata, 'x-ms-requires-sync': 'true', 'if-none-match': '*' },
    body: NOTHING,
    signal: options.signal,
  });
  if (answer.headers['x-ms-copy-status'] !== 'success')
    throw objectError('Unsupported', target, 'is still being copied, although the answer was to be the end');
  return answer;
}

async function copyBlocks(copy: Copy, { ranges }: CopyPlan): Promise<TransportAnswer> {
  const { target, metadata, options } = copy;
  const uploadId = randomUUID().replaceAll('-', '');
  let copiedBytes = 0;
  // When this rejects, no request is pending any more.
  const ids = await atATime(ranges, BLOCKS_AT_A_TIME, async ({ start, end }, index) => {
    const id = Buffer.from(`${uploadId}copy${String(index).padStart(6, '0')}`).toString('base64');
    await putBlockFromUrl(copy, id, { start, end });
    copiedBytes += end - start;
    options.onProgress?.(copiedBytes);
    return id;
  });
  const { signal } = options;
  return commitBlocks(target.connection, target.blob, { ids, metadata, signal });
}

async function putBlockFromUrl(
  { target, headers, options }: Copy,
  id: string,
  { start, end }: CopyRange,
): Promise<void> {
  await target.connection.send({
    operation: 'putPart',
    method: 'PUT',
    blob: target.blob,
    query: { comp: 'block', blockid: id },
    headers: { ...headers, 'x-ms-source-range': `bytes=${start}-${end - 1}` },
    body: NOTHING,
    isRepeatable: true,
    signal: options.signal,
  });
}

const NOTHING = new Uint8Array(0);

/** True if Azure was not allowed to fetch the source, or if Azurite does not support that. */
function isOutOfReach({ code, status }: AzureRefusal): boolean {
  return code === 'CannotVerifyCopySource' || status === 501;
}
