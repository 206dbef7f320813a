/**
 * An upload in parts through a proxy that cuts one of its requests. Either the object is correct,
 * or there is an error and no object.
 */

import { crc32c } from '@holdfast/core';
import { isCheckpointError, type ObjectStore, type PartReceipt, type Upload } from '@holdfast/core/contract';
import type { Cloud } from '../servers/clouds.ts';
import type { CutPoint, CuttingProxy, Exchange } from '../servers/cutting-proxy.ts';
import { isCall } from './requests.ts';

const PART_BYTES = 5 * 1024 * 1024;
const BYTES = new TextEncoder().encode('the only part of a file, which may be short. '.repeat(5));
const PART = { crc32c: crc32c(BYTES) };
const WHOLE = { sizeBytes: BYTES.byteLength, crc32c: PART.crc32c };
const TRIES_MAX = 3;

export type CutRequest = 'part' | 'completion';

export interface CutUpload {
  readonly cloud: Cloud;
  /** Only one upload may use it at a time. */
  readonly proxy: CuttingProxy;
  /** Connects through the proxy. */
  readonly store: ObjectStore;
  /** Reads the store directly. */
  readonly observer: ObjectStore;
}

/**
 * Uploads under this key. Throws if a reported outcome is wrong. Resolves to the request that the
 * proxy cut or should have cut.
 */
export async function playUpload(
  { cloud, proxy, store, observer }: CutUpload,
  key: string,
  { request, after }: { request: CutRequest; after: CutPoint | undefined },
): Promise<Exchange> {
  const upload = await store.beginUpload(key, { partSizeBytes: PART_BYTES });
  const fits = (exchange: Exchange) => isCall(cloud, request, exchange);
  const cut = after && proxy.cut({ when: fits, after });
  const part = await sendPart(upload);
  if (await isThere(observer, key)) throw new Error('an object is seen before it is complete');
  await complete(upload, part, observer);
  cut?.cancel();
  if (cut && !cut.exchange) throw new Error('nothing was cut');
  await assertRight(observer, key);
  const exchange = cut?.exchange ?? proxy.exchanges.findLast(fits);
  if (!exchange) throw new Error(`no ${request} was sent`);
  return exchange;
}

/** Retries transient failures as the engine does. */
async function sendPart(upload: Upload): Promise<PartReceipt> {
  for (let tries = 1; ; tries++) {
    try {
      return await upload.putPart(0, BYTES, PART);
    } catch (error) {
      assertMayBeRepeated(error, tries);
      // The store must have none of the part or all of it.
      for (const { sizeBytes } of await upload.listParts())
        if (sizeBytes !== BYTES.byteLength) throw new Error(`a part of ${sizeBytes} bytes is there`);
    }
  }
}

async function complete(upload: Upload, part: PartReceipt, observer: ObjectStore): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await upload.complete([part], WHOLE);
      return;
    } catch (error) {
      // An earlier call without an answer has completed the upload already.
      if (tries > 1 && isCheckpointError(error, 'NotFound')) return;
      assertMayBeRepeated(error, tries);
      if (await isThere(observer, upload.key)) await assertRight(observer, upload.key);
    }
  }
}

function assertMayBeRepeated(error: unknown, tries: number): void {
  if (isCheckpointError(error) && error.status === 'temporary' && tries < TRIES_MAX) return;
  throw error;
}

async function isThere(observer: ObjectStore, key: string): Promise<boolean> {
  try {
    await observer.head(key);
    return true;
  } catch (error) {
    if (isCheckpointError(error, 'NotFound')) return false;
    throw error;
  }
}

async function assertRight(observer: ObjectStore, key: string): Promise<void> {
  const { bytes } = await observer.get(key, { maxBytes: 2 * BYTES.byteLength });
  if (Buffer.compare(bytes, BYTES) !== 0)
    throw new Error(`I9: ${key} has bytes that differ from those that were sent`);
}
