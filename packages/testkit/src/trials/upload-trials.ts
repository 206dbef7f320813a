/** Uploads of large files in parts. */

import { isCheckpointError, type ObjectInfo, type PartReceipt, type Upload } from '@holdfast/core/contract';
import { expectThat } from '../conformance/expect.ts';
import { type Ground, partSizeNear } from './ground.ts';
import { expectRead } from './read-back.ts';

const SMALL_PART_BYTES = 64 * 1024;
const LAST_PART_BYTES = 1000;

export interface MadeObject {
  readonly key: string;
  readonly bytes: Uint8Array;
  readonly info: ObjectInfo;
}

/** Called with the key while the object must not be visible. */
export type WhileHidden = (key: string) => Promise<void>;

/** Three parts out of order make one object, which is visible only when it is complete. */
export async function tryToUpload(ground: Ground, whileHidden?: WhileHidden): Promise<MadeObject> {
  const [writer, reader] = [await ground.client(0), await ground.client(1)];
  const partSizeBytes = partSizeNear(SMALL_PART_BYTES, writer);
  const bytes = ground.bytes(2 * partSizeBytes + Math.min(LAST_PART_BYTES, partSizeBytes));
  const key = ground.key('dir/object');
  const upload = await writer.beginUpload(key, partSizeBytes, bytes.byteLength);
  await whileHidden?.(key);
  const receipts: PartReceipt[] = [];
  for (const index of [2, 0, 1]) {
    const part = bytes.subarray(index * partSizeBytes, (index + 1) * partSizeBytes);
    receipts[index] = await writer.putPart(upload, index, part);
  }
  expectThat((await reader.find(key)) === null, 'the object is there before its upload is completed');
  await whileHidden?.(key);
  const info = await writer.completeOf(upload, receipts, bytes);
  expectThat(
    info.sizeBytes === bytes.byteLength,
    `${bytes.byteLength} bytes were sent, and the store says ${info.sizeBytes}`,
  );
  const read = () => reader.range(key, 0, bytes.byteLength);
  await expectRead(read, { bytes, what: 'an object sent in parts' });
  return { key, bytes, info };
}

/** A wrong CRC32C is refused, of an object and of a part. Not for stores that verify none. */
export async function tryWrongChecksums(ground: Ground): Promise<void> {
  const client = await ground.client();
  const bytes = ground.bytes(1000);
  const wrong = (client.checksumOf(bytes) ^ 1) >>> 0;
  await expectCorrupt(() => client.create(ground.key('object'), bytes, wrong), 'an object');
  const upload = await client.beginUpload(ground.key('upload'), partSizeNear(SMALL_PART_BYTES, client));
  await expectCorrupt(() => client.putPart(upload, 0, bytes, wrong), 'a part');
}

async function expectCorrupt(send: () => Promise<unknown>, what: string): Promise<void> {
  const isRefused = await send().then(
    () => false,
    (error: unknown) => {
      if (isCheckpointError(error, 'Corrupt')) return true;
      throw error;
    },
  );
  expectThat(isRefused, `${what} with a wrong CRC32C is accepted`);
}

/** An upload that was aborted, twice, cannot be completed. Resolves to that upload. */
export async function tryToAbort(ground: Ground): Promise<Upload> {
  const client = await ground.client();
  const bytes = ground.bytes(100);
  const upload = await client.beginUpload(ground.key('object'), partSizeNear(SMALL_PART_BYTES, client));
  const receipt = await client.putPart(upload, 0, bytes);
  await client.abort(upload);
  await client.abort(upload);
  const isCompleted = await client.completeOf(upload, [receipt], bytes).then(() => true, orMissing);
  expectThat(!isCompleted, 'an upload that was aborted can still be completed');
  return upload;
}

/** Another client sends the rest and completes. Not for stores that cannot resume. */
export async function tryToResume(ground: Ground): Promise<void> {
  const [first, second] = [await ground.client(0), await ground.client(1)];
  const partSizeBytes = partSizeNear(SMALL_PART_BYTES, first);
  const bytes = ground.bytes(partSizeBytes + Math.min(LAST_PART_BYTES, partSizeBytes));
  const key = ground.key('object');
  const begun = await first.beginUpload(key, partSizeBytes, bytes.byteLength);
  await first.putPart(begun, 0, bytes.subarray(0, partSizeBytes));
  const upload = await second.resumeUpload(begun.token);
  await second.putPart(upload, 1, bytes.subarray(partSizeBytes));
  const parts = await second.listParts(upload);
  expectThat(parts.length === 2, `2 parts were sent, by two clients, and ${parts.length} are listed`);
  await second.completeOf(upload, parts, bytes);
  await expectRead(() => first.bytesOf(key), { bytes, what: 'an object sent by two clients' });
}

function orMissing(error: unknown): false {
  if (isCheckpointError(error, 'NotFound')) return false;
  throw error;
}
