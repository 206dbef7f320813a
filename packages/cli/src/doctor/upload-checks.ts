/** Checks uploads of large files in parts. */

import { crc32c } from '@holdfast/core';
import { isCheckpointError, type PartReceipt } from '@holdfast/core/contract';
import { BrokenPromise, expectThat } from './broken-promise.ts';
import type { Check, Outcome } from './check.ts';
import { type Probe, partSizeNear } from './probe.ts';
import { expectRead } from './read-back.ts';

const SMALL_PART_BYTES = 64 * 1024;
const LAST_PART_BYTES = 1000;

export const uploadChecks: readonly Check[] = [
  {
    id: 'multipart',
    title: 'multipart upload',
    needs: ['may-create', 'may-read'],
    meaning: 'large files cannot be saved, or would come back damaged',
    advice: 'use a store whose multipart uploads take parts in any order and show nothing before the end',
    whenDenied: 'large files cannot be saved',
    run: multipart,
  },
  {
    id: 'checksums',
    title: 'checksums',
    needs: ['may-create'],
    meaning: 'bytes damaged on their way to the store are noticed only when they are read again',
    advice: 'use TLS to the store, and `holdfast verify` after a save that matters',
    isAboutComfort: true,
    run: checksums,
  },
  {
    id: 'abort',
    title: 'abort an upload',
    needs: ['multipart'],
    meaning: 'uploads that are cut off stay in the store, unseen, and cost what they hold',
    advice: 'set a rule of the bucket that ends incomplete uploads after some days',
    whenDenied: 'uploads that are cut off stay in the store, unseen, and cost what they hold',
    isAboutComfort: true,
    run: abort,
  },
  {
    id: 'resume',
    title: 'resume an upload',
    needs: ['multipart'],
    meaning: 'an upload that was cut off can be neither taken up nor ended by another process',
    advice: 'set a rule of the bucket that ends incomplete uploads after some days',
    whenDenied: 'an upload that was cut off can be neither taken up nor ended by another process',
    isAboutComfort: true,
    run: resume,
  },
];

async function multipart(probe: Probe): Promise<Outcome> {
  const [writer, reader] = [await probe.client(0), await probe.client(1)];
  const partSizeBytes = partSizeNear(SMALL_PART_BYTES, writer);
  const bytes = probe.bytes(2 * partSizeBytes + Math.min(LAST_PART_BYTES, partSizeBytes));
  const key = probe.key('object');
  const upload = await writer.beginUpload(key, partSizeBytes, bytes.byteLength);
  const receipts: PartReceipt[] = [];
  for (const index of [2, 0, 1]) {
    const part = bytes.subarray(index * partSizeBytes, (index + 1) * partSizeBytes);
    receipts[index] = await writer.putPart(upload, index, part);
  }
  expectThat((await reader.find(key)) === null, 'the object is there before its upload is completed');
  const whole = { sizeBytes: bytes.byteLength, crc32c: crc32c(bytes) };
  const info = await writer.complete(upload, receipts, whole);
  expectThat(
    info.sizeBytes === whole.sizeBytes,
    `${whole.sizeBytes} bytes were sent, and the store says ${info.sizeBytes}`,
  );
  const read = () => reader.range(key, 0, bytes.byteLength);
  await expectRead(read, { bytes, what: 'an object sent in parts' });
  return { seen: '3 parts out of order, visible only when complete' };
}

async function checksums(probe: Probe): Promise<Outcome> {
  const client = await probe.client();
  if (!client.capabilities.verifiesChecksums)
    return { seen: 'not kept by this store; compared when it is read' };
  const bytes = probe.bytes(1000);
  const wrong = (crc32c(bytes) ^ 1) >>> 0;
  await expectCorrupt(() => client.create(probe.key('object'), bytes, wrong), 'an object');
  const upload = await client.beginUpload(probe.key('upload'), partSizeNear(SMALL_PART_BYTES, client));
  await expectCorrupt(() => client.putPart(upload, 0, bytes, wrong), 'a part');
  return { seen: 'wrong ones are refused, of objects and of parts' };
}

async function expectCorrupt(send: () => Promise<unknown>, what: string): Promise<void> {
  try {
    await send();
  } catch (error) {
    if (isCheckpointError(error, 'Corrupt')) return;
    throw error;
  }
  throw new BrokenPromise(`${what} with a wrong CRC32C is accepted`);
}

async function abort(probe: Probe): Promise<Outcome> {
  const client = await probe.client();
  const bytes = probe.bytes(100);
  const upload = await client.beginUpload(probe.key('object'), partSizeNear(SMALL_PART_BYTES, client));
  const receipt = await client.putPart(upload, 0, bytes);
  await client.abort(upload);
  await client.abort(upload);
  const isCompleted = await client
    .complete(upload, [receipt], { sizeBytes: 100, crc32c: crc32c(bytes) })
    .then(() => true, orMissing);
  expectThat(!isCompleted, 'an upload that was aborted can still be completed');
  return { seen: 'an aborted upload is gone' };
}

async function resume(probe: Probe): Promise<Outcome> {
  const [first, second] = [await probe.client(0), await probe.client(1)];
  if (!first.capabilities.resumesUploads) return { seen: 'not in this store, which removes them with time' };
  const partSizeBytes = partSizeNear(SMALL_PART_BYTES, first);
  const bytes = probe.bytes(partSizeBytes + Math.min(LAST_PART_BYTES, partSizeBytes));
  const key = probe.key('object');
  const begun = await first.beginUpload(key, partSizeBytes, bytes.byteLength);
  await first.putPart(begun, 0, bytes.subarray(0, partSizeBytes));
  const upload = await second.resumeUpload(begun.token);
  await second.putPart(upload, 1, bytes.subarray(partSizeBytes));
  const parts = await second.listParts(upload);
  expectThat(parts.length === 2, `2 parts were sent, by two clients, and ${parts.length} are listed`);
  await second.complete(upload, parts, { sizeBytes: bytes.byteLength, crc32c: crc32c(bytes) });
  await expectRead(() => first.bytesOf(key), { bytes, what: 'an object sent by two clients' });
  return { seen: 'another client sends the rest and completes' };
}

function orMissing(error: unknown): false {
  if (isCheckpointError(error, 'NotFound')) return false;
  throw error;
}
