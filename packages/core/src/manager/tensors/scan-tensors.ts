/** Reads the tensors of a safetensors file of a checkpoint. */

import { ByteGate } from '../../contract/byte-gate.ts';
import type { WaitOptions } from '../../contract/checkpoint-manager.ts';
import { SafetensorsScan } from '../../plan/safetensors.ts';
import type { StoredFile } from '../../plan/stored-file.ts';
import { type RunContext, transferOptions } from '../run/index.ts';

/** Two headers are in memory at once, as bytes and parsed. */
const HEADER_BUDGET_SHARE = 1 / 8;
/** For the headers of all files that are read at the same time. */
const HEADERS_BUDGET_SHARE = 1 / 4;
/** Most headers are shorter, so that no more than the first part of the file is read. */
const FIRST_BYTES = 256 * 1024;
/** A file begins with the length of its header. */
const LENGTH_BYTES = 8;

export interface ScannedTensors {
  readonly scan: SafetensorsScan;
  readonly bytesRead: number;
}

type Options = WaitOptions & { readonly signal: AbortSignal };

/** Reads the headers of safetensors files, several at the same time in a limited memory. */
export class HeaderReader {
  readonly #run: RunContext;
  readonly #gate: ByteGate;

  constructor(run: RunContext) {
    this.#run = run;
    this.#gate = new ByteGate(run.settings.bufferBytes * HEADERS_BUDGET_SHARE);
  }

  async read(file: StoredFile, options: Options): Promise<ScannedTensors> {
    const scan = newScan(this.#run, file, false);
    if (!scan.wantsMore) return { scan, bytesRead: 0 };
    const { sizeBytes } = file;
    const first = Buffer.alloc(Math.min(FIRST_BYTES, sizeBytes));
    let filledBytes = 0;
    for await (const chunk of chunksOf(this.#run, file, { lengthBytes: first.byteLength, ...options })) {
      first.set(chunk, filledBytes);
      filledBytes += chunk.byteLength;
      if (filledBytes - LENGTH_BYTES >= first.readBigUInt64LE()) break;
    }
    // The stream has ended: a file that waits here holds no buffer of the transfers.
    const restBytes = await this.#gate.run(Number(first.readBigUInt64LE()), () => {
      scan.push(first.subarray(0, filledBytes));
      return pushRest(this.#run, file, { scan, offsetBytes: filledBytes, ...options });
    });
    return { scan, bytesRead: filledBytes + restBytes };
  }
}

/** Also computes the checksum of each tensor, which requires the whole file. */
export async function scanWithSums(
  run: RunContext,
  file: StoredFile,
  options: Options,
): Promise<ScannedTensors> {
  const scan = newScan(run, file, true);
  return { scan, bytesRead: await pushRest(run, file, { scan, offsetBytes: 0, ...options }) };
}

function newScan(run: RunContext, { sizeBytes }: StoredFile, withSums: boolean): SafetensorsScan {
  const headerBytesMax = run.settings.bufferBytes * HEADER_BUDGET_SHARE;
  return new SafetensorsScan({ fileBytes: sizeBytes, headerBytesMax, withSums });
}

/** Returns how many bytes were read. */
async function pushRest(
  run: RunContext,
  file: StoredFile,
  { scan, offsetBytes, ...options }: Options & { scan: SafetensorsScan; offsetBytes: number },
): Promise<number> {
  let bytesRead = 0;
  const lengthBytes = file.sizeBytes - offsetBytes;
  if (!scan.wantsMore || lengthBytes === 0) return bytesRead;
  // Leaving the loop ends the stream and discards what was read ahead.
  for await (const chunk of chunksOf(run, file, { offsetBytes, lengthBytes, ...options })) {
    bytesRead += chunk.byteLength;
    scan.push(chunk);
    if (!scan.wantsMore) break;
  }
  return bytesRead;
}

function chunksOf(
  run: RunContext,
  file: StoredFile,
  { offsetBytes = 0, lengthBytes, ...options }: Options & { offsetBytes?: number; lengthBytes: number },
): AsyncIterable<Uint8Array> {
  return run.transfers.stream(file, { ...transferOptions(options), part: { offsetBytes, lengthBytes } });
}
