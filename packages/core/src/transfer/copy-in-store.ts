/** Copies that a store makes by itself: no bytes pass through this process. */

import {
  CheckpointError,
  type ErrorCode,
  isCheckpointError,
  type ObjectInfo,
  toCheckpointError,
} from '../contract/index.ts';
import { hexCrc } from '../plan/ranges.ts';
import type { StoredFile } from '../plan/stored-file.ts';
import type { UploadedFile, UploadItem } from './api.ts';
import type { LentFile } from './lent-file.ts';
import type { FileProgress } from './progress.ts';
import type { Transfer } from './transfer.ts';
import { verifyFile } from './verify.ts';

/**
 * Errors after which the bytes are sent instead. The store may allow no copies, or none of this
 * object. Sending either works or gives a better error.
 */
const BETTER_SENT = [
  'AlreadyExists',
  'Corrupt',
  'Denied',
  'InvalidArgument',
  'NotFound',
  'Unsupported',
] as const satisfies readonly ErrorCode[];

/**
 * Resolves to the copy, after comparing it with the record of the original. `null`: there is no
 * copy, so the bytes must be sent.
 */
export async function copyInStore(
  item: UploadItem,
  lent: LentFile,
  transfer: Transfer,
  progress: FileProgress,
): Promise<UploadedFile | null> {
  const { name, copyKey } = item;
  const { file, copies } = lent;
  if (!copyKey || !transfer.store.copyFrom || copies.areImpossible) return null;
  try {
    const copied = await transfer.turn(() => copy(item, copyKey, lent, transfer, progress));
    if (copied === null) copies.areImpossible = true;
    else await compare(copied, file, transfer);
    if (copied === null) return null;
    progress.finish(file.sizeBytes);
    return { ...file, name, key: copied.key };
  } catch (error) {
    if (transfer.signal.aborted || !BETTER_SENT.some((code) => isCheckpointError(error, code))) throw error;
    const why = toCheckpointError(error).message;
    progress.restart();
    transfer.shared.logger.log('info', `"${name}" is sent, because the store could not copy it: ${why}`);
    return null;
  }
}

/**
 * Each try uses a new key. If the answer of a try was lost, a copy that it made stays unused until
 * a sweep deletes it.
 */
function copy(
  { name }: UploadItem,
  copyKey: () => string,
  { file, store: source }: LentFile,
  transfer: Transfer,
  progress: FileProgress,
): Promise<ObjectInfo | null> {
  return transfer.request(`copy of "${name}"`, async ({ signal, onBytes }) => {
    let toldBytes = 0;
    const onProgress = (copiedBytes: number) => {
      onBytes();
      progress.add(Math.max(0, copiedBytes - toldBytes));
      toldBytes = Math.max(toldBytes, copiedBytes);
    };
    const options = { sizeBytes: file.sizeBytes, signal, onProgress };
    return (await transfer.store.copyFrom?.(source, file.key, copyKey(), options)) ?? null;
  });
}

/**
 * Compares the store's checksum of the copy with the recorded one. If the store keeps none, the
 * copy is read back.
 */
async function compare(
  { key, sizeBytes, crc32c }: ObjectInfo,
  file: StoredFile,
  transfer: Transfer,
): Promise<void> {
  const item = { file: { ...file, key }, level: 2 } as const;
  const [problem] = crc32c === undefined ? (await verifyFile(item, transfer, {})).problems : [];
  const isLike = sizeBytes === file.sizeBytes && (crc32c ?? file.crc32c) === file.crc32c;
  if (isLike && !problem) return;
  const found = `${sizeBytes} bytes${crc32c === undefined ? '' : `, ${hexCrc(crc32c)}`}`;
  const expected = `${file.sizeBytes} bytes, ${hexCrc(file.crc32c)}`;
  const what = problem?.message ?? `it has ${found}, but ${expected} is recorded`;
  throw new CheckpointError('Corrupt', `the copy differs from its original: ${what}`, {
    context: { name: file.name, key, expected, found },
  });
}
