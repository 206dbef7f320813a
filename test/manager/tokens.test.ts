/**
 * A token identifies the caller's receipt by its key and its bytes. Another process may have
 * delivered under the same key.
 */

import { sha256 } from '@holdfast/core/internal/format/index';
import { readToken, writeToken } from '@holdfast/core/internal/manager/records/tokens';
import { describe, expect, test } from 'vitest';
import { newBucket, open } from './memory-run.ts';

const id = { lineage: 1, epoch: 1, version: 1n };
const receiptKey = 'version_1/1.1/receipts/0.0.json';

async function run() {
  const bucket = newBucket();
  const manager = open(bucket, { attempt: 'job' });
  await manager.save({ version: 1, buffers: { a: Uint8Array.of(1) } });
  const { runId } = JSON.parse(new TextDecoder().decode(bucket.find('run.json')?.bytes)) as { runId: string };
  const receiptSha256 = sha256(bucket.find(receiptKey)?.bytes ?? new Uint8Array(0));
  const commit = { of: 'commit', runId, id, manifestSha256: undefined, receiptKey } as const;
  return { bucket, manager, commit, receiptSha256 };
}

test('a token is read as it was written; one that is older says less', () => {
  const content = {
    of: 'commit',
    ...{ runId: 'r', id, manifestSha256: new Uint8Array(32).fill(1), receiptKey },
    receiptSha256: new Uint8Array(32).fill(2),
  } as const;
  expect(readToken(writeToken(content))).toEqual(content);
  const fields = ['commit', 'r', 1, 1, '1', '', receiptKey];
  const older = `hf1-${btoa(JSON.stringify(fields)).replaceAll('=', '')}`;
  expect(readToken(older)).toEqual({ ...content, manifestSha256: undefined, receiptSha256: undefined });
});

describe('recover', () => {
  test('says committed of the receipt that was committed', async () => {
    const { manager, commit, receiptSha256 } = await run();
    const token = writeToken({ ...commit, receiptSha256 });
    expect(await manager.recover(token)).toMatchObject({ outcome: 'committed' });
    const older = writeToken({ ...commit, receiptSha256: undefined });
    expect(await manager.recover(older)).toMatchObject({ outcome: 'committed' });
  });

  test('says not-committed of another one under its key', async () => {
    const { manager, commit } = await run();
    const token = writeToken({ ...commit, receiptSha256: new Uint8Array(32).fill(7) });
    expect(await manager.recover(token)).toMatchObject({ outcome: 'not-committed' });
  });

  test('says that nothing is delivered where another one lies under the key', async () => {
    const { bucket, manager, commit, receiptSha256 } = await run();
    const key = 'version_2/1.1/receipts/0.0.json';
    bucket.insert(key, bucket.find(receiptKey)?.bytes ?? new Uint8Array(0));
    const open = { ...commit, id: { ...id, version: 2n }, receiptKey: key };
    const told = (digest: Uint8Array) => manager.recover(writeToken({ ...open, receiptSha256: digest }));
    expect(await told(receiptSha256)).toMatchObject({ outcome: 'pending', isDelivered: true });
    expect(await told(new Uint8Array(32))).toMatchObject({ outcome: 'pending', isDelivered: false });
  });
});
