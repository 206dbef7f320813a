import { CheckpointError, isCheckpointError } from '../contract/index.ts';
import { checkStoredFile, type FileRange, hexCrc, planRanges, planSamples } from '../plan/ranges.ts';
import type { StoredFile } from '../plan/stored-file.ts';
import type { VerifyItem, VerifyReport } from './api.ts';
import { ReadMemory } from './hedged-read.ts';
import type { TransferOptions } from './options.ts';
import { FileProgress } from './progress.ts';
import { checkOversizedPart, isOversized, memoryBytes, missing, pieceBytes, readParts } from './read.ts';
import { FileTurns, type Transfer } from './transfer.ts';

/** Reading of a file stops after this many damaged places. */
const PROBLEMS_PER_FILE_MAX = 10;

/**
 * Compares one file with its record. Damage is reported; any other error is thrown. `options`:
 * receives the progress.
 */
export async function verifyFile(
  { file, level }: VerifyItem,
  transfer: Transfer,
  options: TransferOptions = transfer.options,
): Promise<VerifyReport> {
  return new FileCheck(file, transfer, options).check(level);
}

class FileCheck {
  readonly #file: StoredFile;
  readonly #transfer: Transfer;
  readonly #options: TransferOptions;
  readonly #problems: { startBytes: number; message: string }[] = [];
  #bytesRead = 0;
  #storedChecksumCount = 0;
  #isHopeless = false;

  constructor(file: StoredFile, transfer: Transfer, options: TransferOptions) {
    this.#file = file;
    this.#transfer = transfer;
    this.#options = options;
  }

  async check(level: 0 | 1 | 2): Promise<VerifyReport> {
    const { name } = this.#file;
    await this.#collect(0, async () => checkStoredFile(this.#file));
    if (this.#problems.length === 0 && level < 2) await this.#collect(0, () => this.#checkHead());
    if (this.#problems.length === 0 && level > 0) await this.#checkRanges(level);
    this.#problems.sort((a, b) => a.startBytes - b.startBytes);
    const problems = this.#problems.slice(0, PROBLEMS_PER_FILE_MAX).map(({ message }) => ({ name, message }));
    return { bytesRead: this.#bytesRead, storedChecksumCount: this.#storedChecksumCount, problems };
  }

  /** Compares what the store reports about the object. Reads no bytes of it. */
  async #checkHead(): Promise<void> {
    const { name, key, sizeBytes, crc32c } = this.#file;
    const transfer = this.#transfer;
    const send = (signal: AbortSignal) => transfer.store.head(key, { signal });
    const found = await transfer
      .turn(() => transfer.request(`head of "${name}"`, ({ signal }) => send(signal)))
      .catch((error: unknown) => {
        throw isCheckpointError(error, 'NotFound') ? missing(this.#file, error) : error;
      });
    if (found.sizeBytes !== sizeBytes) {
      throw headProblem(this.#file, `has ${found.sizeBytes} of ${sizeBytes} bytes`);
    }
    if (found.crc32c === undefined) return;
    this.#storedChecksumCount = 1;
    if (found.crc32c === crc32c) return;
    const [expected, stored] = [hexCrc(crc32c), hexCrc(found.crc32c)];
    throw headProblem(this.#file, `has the checksum ${stored} in the store (expected ${expected})`);
  }

  async #checkRanges(level: number): Promise<void> {
    const file = this.#file;
    const { settings, shared } = this.#transfer;
    const draw = () => shared.random.fraction();
    const ranges = level === 1 ? planSamples(file, draw) : planRanges(file, settings.partSizeBytesMin);
    if (level > 1) await this.#transfer.expect(file.sizeBytes);
    const progress = new FileProgress(file.name, file.sizeBytes, this.#options);
    const turns = new FileTurns(this.#transfer, file.sizeBytes > file.partSizeBytes);
    for (const range of ranges) {
      if (this.#transfer.signal.aborted || this.#isHopeless || this.#problems.length >= PROBLEMS_PER_FILE_MAX)
        break;
      await turns.next(async () => {
        await this.#collect(range.startBytes, () => this.#read(range));
        progress.add(range.lengthBytes);
      });
    }
    await turns.settled();
    progress.finish(file.sizeBytes);
  }

  async #read(range: FileRange): Promise<void> {
    const [transfer, file] = [this.#transfer, this.#file];
    const oversized = isOversized(range, transfer);
    const room = oversized ? pieceBytes(transfer) : memoryBytes(file, range, transfer);
    const memory = ReadMemory.of(await transfer.pool.acquire(room, transfer.signal));
    try {
      await (oversized
        ? checkOversizedPart(transfer, file, range, memory)
        : readParts(transfer, file, range, memory));
      this.#bytesRead += range.lengthBytes;
    } finally {
      memory.release();
    }
  }

  async #collect(startBytes: number, check: () => Promise<void>): Promise<void> {
    try {
      await check();
    } catch (error) {
      if (!isCheckpointError(error, 'Corrupt')) throw error;
      if (this.#isHopeless) return; // the file was already reported as missing
      this.#isHopeless = isMissing(error);
      this.#problems.push({ startBytes, message: error.message });
    }
  }
}

function headProblem({ name, key }: StoredFile, what: string): CheckpointError {
  return new CheckpointError('Corrupt', `"${name}" ${what} (${key})`, { context: { name, key } });
}

function isMissing(error: CheckpointError): boolean {
  return isCheckpointError(error.cause, 'NotFound');
}
