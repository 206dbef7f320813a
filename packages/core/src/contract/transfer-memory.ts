/**
 * The memory and the threads of transfers, for processes that have several managers: together they
 * use no more than one manager would.
 */
export interface TransferMemory {
  /** Setting `bufferBytes`. */
  readonly totalBytes: number;
  readonly freeBytes: number;
  /** The most that was ever in use at once. */
  readonly peakBytes: number;
  /** After all managers that use it were closed. Safe to repeat. */
  close(): void;
}
