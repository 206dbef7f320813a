/** Progress events of calls that move bytes. */

import type { ProgressEvent, WaitOptions } from '../../contract/checkpoint-manager.ts';
import type { CatalogCheckpoint, Manifest } from '../../format/index.ts';
import { refersToReceipts } from '../../plan/file-lists.ts';
import { totalBytes } from '../../plan/stored-file.ts';
import type { TransferOptions } from '../../transfer/index.ts';

/** Reports bytes and retries of a transfer to the caller's `onProgress`. */
export function transferOptions(options: WaitOptions): TransferOptions {
  const { signal, onProgress } = options;
  if (!onProgress) return { signal };
  return {
    signal,
    onBytes: (name, doneBytes, totalBytes) => onProgress({ type: 'bytes', name, doneBytes, totalBytes }),
    onRetry: (detail) => onProgress({ type: 'retry', detail }),
  };
}

/**
 * The `planned` event for a checkpoint that is read as a whole. The event has no file names if the
 * manifest refers to receipts, because those are read only during the transfer.
 */
export function plannedCheckpoint(
  { id, fileCount, sizeBytes }: CatalogCheckpoint,
  manifest: Manifest,
): ProgressEvent {
  if (!refersToReceipts(manifest)) {
    return plannedEvent(
      id.version,
      manifest.writers.flatMap((share) => share.files),
    );
  }
  return { type: 'planned', version: id.version, fileCount, sizeBytes, files: [] };
}

export function plannedEvent(
  version: bigint,
  files: readonly { readonly name: string; readonly sizeBytes: number }[],
): ProgressEvent {
  return {
    type: 'planned',
    version,
    fileCount: files.length,
    sizeBytes: totalBytes(files),
    files: files.map(({ name, sizeBytes }) => ({ name, sizeBytes })),
  };
}
