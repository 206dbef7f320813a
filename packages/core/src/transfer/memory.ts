/** The buffer pool and the workers: those of one manager, or those that several share. */

import {
  aLogger,
  CheckpointError,
  checkOptions,
  completeSettings,
  type Logger,
  optional,
  type Rules,
  type Settings,
  safeLogger,
  silentLogger,
  type TransferMemory,
} from '../contract/index.ts';
import { planStream, poolBytes, streamPartBytesMax } from '../plan/parts.ts';
import { BufferPool } from './buffer-pool.ts';
import type { TransferParts } from './options.ts';
import { Workers } from './workers.ts';

export interface TransferMemoryOptions {
  readonly settings?: Partial<Pick<Settings, 'bufferBytes' | 'partSizeBytesMin' | 'workers'>> | undefined;
  readonly logger?: Logger | undefined;
}

/** `completeSettings` checks the settings. */
const OPTIONS: Rules<TransferMemoryOptions> = { settings: () => undefined, logger: optional(aLogger) };

/** What all transfers of one `Transfers` take their buffers and threads from. */
export interface MemoryInUse {
  readonly pool: BufferPool;
  readonly workers: Workers;
  /** Call it once the transfers have ended. Memory that several managers share stays open. */
  release(): void;
}

class SharedMemory implements TransferMemory {
  readonly pool: BufferPool;
  readonly workers: Workers;

  constructor(settings: Settings, logger: Logger) {
    this.workers = new Workers(settings, logger);
    this.pool = poolOf(settings, this.workers, streamPartBytesMax(settings));
  }

  get totalBytes(): number {
    return this.pool.totalBytes;
  }

  get freeBytes(): number {
    return this.pool.freeBytes;
  }

  get peakBytes(): number {
    return this.pool.peakBytes;
  }

  close(): void {
    this.workers.close();
    this.pool.close();
  }
}

/**
 * Memory for all managers that get it as their option `memory`: `bufferBytes` for all of them
 * together, and one set of workers. Nothing is allocated before the first use. `InvalidConfig`: a
 * setting is not valid.
 */
export function createTransferMemory(options: TransferMemoryOptions = {}): TransferMemory {
  checkOptions(options, OPTIONS, 'what createTransferMemory is given');
  return new SharedMemory(completeSettings(options.settings), safeLogger(options.logger ?? silentLogger));
}

/**
 * `InvalidArgument`: `memory` was not made by `createTransferMemory` of this copy of the package.
 */
export function memoryOf(parts: TransferParts): MemoryInUse {
  const { memory, settings, logger, store } = parts;
  const { partSizeBytes } = planStream(settings, store.capabilities);
  const { takesSharedMemory = false } = store.capabilities;
  if (memory !== undefined) {
    if (!(memory instanceof SharedMemory)) throw notOurs();
    const { pool, workers } = memory;
    const fits = pool.slotBytes >= partSizeBytes && (takesSharedMemory || !workers.mayStart);
    if (fits) return { pool, workers, release: () => undefined };
  }
  const workers = new Workers(takesSharedMemory ? settings : { workers: 0 }, logger);
  const pool = poolOf(settings, workers, partSizeBytes);
  const release = () => {
    workers.close();
    pool.close();
  };
  return { pool, workers, release };
}

function poolOf(settings: Settings, workers: Workers, slotBytes: number): BufferPool {
  return new BufferPool(poolBytes(settings), slotBytes, workers.mayStart ? workers : undefined);
}

function notOurs(): CheckpointError {
  const message = 'memory must come from createTransferMemory of the same copy of @holdfast/core';
  return new CheckpointError('InvalidArgument', message);
}
