/**
 * Decides when workers are worth their start, and gives them the checksums of parts. A save of a
 * few megabytes ends before a thread has started, so it never starts one.
 */

import {
  type Logger,
  ServiceCalls,
  type Settings,
  setWorkersOf,
  toCheckpointError,
  type WorkerCalls,
} from '../contract/index.ts';
import { type Blake3, blake3, crc32c, startBlake3 } from '../format/checksum.ts';
import {
  CHECKSUM_SERVICE,
  type ChecksumAnswer,
  type ChecksumRequest,
  giveBack,
  type OpenWorkers,
  openWorkers,
  preferredWorkerCount,
  takeShared,
} from '../workers/index.ts';
import type { MemoryLender } from './buffer-pool.ts';

const MIB = 1024 * 1024;
/** Moving this much takes some tenths of a second, a multiple of the start of a thread. */
const WORK_BYTES_MIN = 256 * MIB;
/** A smaller part is hashed sooner here than a thread could answer. */
const PART_BYTES_MIN = 256 * 1024;

type Checksums = WorkerCalls<ChecksumRequest, ChecksumAnswer>;

/** BLAKE3 of bytes that arrive in order. */
export interface HashOfParts {
  /** The bytes belong to the hash until this settles. */
  update(bytes: Uint8Array): Promise<void>;
  /** `undefined`: the thread has ended. */
  digest(): Promise<Uint8Array | undefined>;
  /** Instead of `digest`. */
  drop(): void;
}

export class Workers implements MemoryLender {
  readonly #count: number;
  readonly #startBytes: number;
  readonly #logger: Logger;
  #memory: ArrayBufferLike | undefined;
  #isKnownToThreads = false;
  #expectedBytes = 0;
  #starting: Promise<void> | undefined;
  #open: OpenWorkers | undefined;
  #services: ServiceCalls<ChecksumRequest, ChecksumAnswer> | undefined;
  #lastHash = 0;
  #isClosed = false;

  /** `preferredCount`: without the setting. Tests play other machines by it. */
  constructor(settings: Pick<Settings, 'workers'>, logger: Logger, preferredCount = preferredWorkerCount()) {
    const isChosen = settings.workers !== -1;
    this.#count = isChosen ? settings.workers : preferredCount;
    this.#startBytes = isChosen ? 1 : WORK_BYTES_MIN;
    this.#logger = logger;
  }

  get mayStart(): boolean {
    return this.#count > 0;
  }

  get isRunning(): boolean {
    return this.#open !== undefined;
  }

  /** Memory for the pool, which all threads can use. */
  take(sizeBytes: number): ArrayBufferLike {
    this.#memory = takeShared(sizeBytes);
    this.#tellWorkers();
    return this.#memory;
  }

  giveBack(memory: ArrayBufferLike): void {
    if (this.#isKnownToThreads) giveBack(memory);
  }

  /**
   * This many bytes more will be moved. Resolves once the workers have started, or at once if they
   * are not worth it. Never rejects. `undefined`: there is nothing to wait for.
   */
  expect(sizeBytes: number): Promise<void> | undefined {
    this.#expectedBytes += sizeBytes;
    if (!this.mayStart || this.#expectedBytes < this.#startBytes || this.#isClosed) return undefined;
    this.#starting ??= this.#start();
    return this.#open ? undefined : this.#starting;
  }

  /** Bytes in memory of the pool. They stay as they are until it settles. */
  async crc32c(bytes: Uint8Array): Promise<number> {
    return ((await this.#elsewhere(bytes, { crc32c: bytes })) as number | undefined) ?? crc32c(bytes);
  }

  /** As `crc32c`. For files in parts there is `startHash`. */
  async blake3(bytes: Uint8Array): Promise<Uint8Array> {
    return ((await this.#elsewhere(bytes, { blake3: bytes })) as Uint8Array | undefined) ?? blake3(bytes);
  }

  startHash(): HashOfParts {
    const checksums = this.#services?.idlest;
    return checksums === undefined ? here(startBlake3()) : there(checksums, ++this.#lastHash);
  }

  /** After all transfers have ended. */
  close(): void {
    this.#isClosed = true;
    if (this.#memory) setWorkersOf(this.#memory, undefined);
    this.#services?.close();
    this.#services = undefined;
    this.#open?.close();
    this.#open = undefined;
  }

  /** `undefined`: compute it here. No thread has the memory, or it would take longer there. */
  async #elsewhere(bytes: Uint8Array, request: ChecksumRequest): Promise<ChecksumAnswer> {
    const isForWorkers = bytes.byteLength >= PART_BYTES_MIN && bytes.buffer === this.#memory;
    if (!isForWorkers || !this.#services) return undefined;
    return this.#services.idlest.call(request).catch(() => undefined); // the thread has ended
  }

  #tellWorkers(): void {
    if (this.#memory === undefined || this.#open === undefined) return;
    setWorkersOf(this.#memory, this.#open.workers);
    this.#isKnownToThreads = true;
  }

  async #start(): Promise<void> {
    try {
      const open = await openWorkers(this.#count);
      if (this.#isClosed) {
        open.close();
        return;
      }
      this.#open = open;
      this.#services = new ServiceCalls(open.workers, CHECKSUM_SERVICE);
      this.#tellWorkers();
    } catch (error) {
      const why = toCheckpointError(error).message;
      this.#logger.log('warn', `one thread does all the work, because no other can be started: ${why}`);
    }
  }
}

function here(hash: Blake3): HashOfParts {
  return {
    update: async (bytes) => hash.update(bytes),
    digest: async () => hash.digest(),
    drop: () => undefined,
  };
}

function there(checksums: Checksums, hash: number): HashOfParts {
  let isLost = false;
  const lose = () => {
    isLost = true;
    return undefined;
  };
  return {
    update: async (bytes) => void (isLost || (await checksums.call({ hash, bytes }).catch(lose))),
    digest: async () => {
      const digest = await checksums.call({ digestOf: hash }).catch(lose);
      return isLost ? undefined : (digest as Uint8Array);
    },
    drop: () => void checksums.call({ dropped: hash }).catch(lose),
  };
}
