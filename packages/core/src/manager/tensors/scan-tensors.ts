/** Reads the tensors of a safetensors file of a checkpoint. */

import type { WaitOptions } from '../../contract/checkpoint-manager.ts';
import { SafetensorsScan } from '../../plan/safetensors.ts';
import type { StoredFile } from '../../plan/stored-file.ts';
import { type RunContext, transferOptions } from '../run/index.ts';

/** Two headers are in memory at once, as bytes and parsed. */
const HEADER_BUDGET_SHARE = 1 / 8;
/** Most headers are shorter, so that no more than the first part of the file is read. */
const FIRST_BYTES = 256 * 1024;

export interface ScanTensorsOptions extends WaitOptions {
  readonly signal: AbortSignal;
  /** Also computes the checksum of each tensor, which requires the whole file. */
  readonly withSums: boolean;
}

export interface ScannedTensors {
  readonly scan: SafetensorsScan;
  readonly bytesRead: number;
}

export async function scanTensors(
  run: RunContext,
  file: StoredFile,
  options: ScanTensorsOptions,
): Promise<ScannedTensors> {
  const headerBytesMax = run.settings.bufferBytes * HEADER_BUDGET_SHARE;
  const { sizeBytes } = file;
  const scan = new SafetensorsScan({ fileBytes: sizeBytes, headerBytesMax, withSums: options.withSums });
  let bytesRead = 0;
  const firstBytes = options.withSums ? sizeBytes : Math.min(FIRST_BYTES, sizeBytes);
  for (const lengthBytes of [firstBytes, sizeBytes - firstBytes]) {
    if (!scan.wantsMore || lengthBytes === 0) break;
    const part = { offsetBytes: bytesRead, lengthBytes };
    // Leaving the loop ends the stream and discards what was read ahead.
    for await (const chunk of run.transfers.stream(file, { ...transferOptions(options), part })) {
      bytesRead += chunk.byteLength;
      scan.push(chunk);
      if (!scan.wantsMore) break;
    }
  }
  return { scan, bytesRead };
}
