/** State of a running save, restore or verification, computed from its events. */

import type { ProgressEvent, WriterPosition } from '@holdfast/core/contract';

export interface FileProgress {
  readonly name: string;
  totalBytes: number;
  doneBytes: number;
  /** Time when its first bytes were done; `null` before. */
  startedAtMs: number | null;
  isDone: boolean;
  readonly pace: Pace;
}

export type Phase = 'starting' | 'transferring' | 'waiting' | 'ended';

export class ProgressState {
  phase: Phase = 'starting';
  /** When the call began, by the clock of `apply`. */
  beganAtMs = 0;
  version: bigint | null = null;
  writer: WriterPosition | null = null;
  epoch: number | null = null;
  fileCount = 0;
  totalBytes = 0;
  doneBytes = 0;
  doneFiles = 0;
  retries = 0;
  isDelivered = false;
  isCommitted = false;
  missingWriters: readonly number[] = [];
  waitedMs = 0;
  readonly files = new Map<string, FileProgress>();
  readonly pace = new Pace();

  /** `nowMs`: of a monotonic clock. */
  apply(event: ProgressEvent, nowMs: number): void {
    switch (event.type) {
      case 'joined':
        this.version = event.version;
        this.writer = event.writer;
        this.epoch = event.epoch;
        break;
      case 'planned':
        this.#plan(event, nowMs);
        break;
      case 'bytes':
        this.#advance(event, nowMs);
        break;
      case 'retry':
        this.retries += 1;
        break;
      case 'delivered':
        this.isDelivered = true;
        this.phase = 'waiting';
        this.missingWriters = event.missingWriters;
        break;
      case 'waiting':
        this.phase = 'waiting';
        this.missingWriters = event.missingWriters;
        this.waitedMs = event.waitedMs;
        break;
      case 'committed':
        this.isCommitted = true;
        this.phase = 'ended';
        break;
      case 'skipped':
      case 'left':
      case 'resumed':
        break;
      case 'idle':
        this.phase = 'ended';
        break;
    }
  }

  // A restore that falls back plans again, for another version: drop the counts of the damaged one.
  #plan(event: Extract<ProgressEvent, { type: 'planned' }>, nowMs: number): void {
    this.phase = 'transferring';
    this.version = event.version;
    this.fileCount = event.fileCount;
    this.totalBytes = event.sizeBytes;
    this.doneBytes = 0;
    this.doneFiles = 0;
    this.files.clear();
    for (const file of event.files) this.files.set(file.name, newFile(file.name, file.sizeBytes));
    this.pace.restart(nowMs);
  }

  #advance(event: Extract<ProgressEvent, { type: 'bytes' }>, nowMs: number): void {
    const file = this.files.get(event.name) ?? newFile(event.name, event.totalBytes);
    this.files.set(event.name, file);
    file.startedAtMs ??= nowMs;
    this.doneBytes += event.doneBytes - file.doneBytes;
    file.doneBytes = event.doneBytes;
    file.totalBytes = event.totalBytes;
    file.pace.add(nowMs, file.doneBytes);
    this.pace.add(nowMs, this.doneBytes);
    if (!file.isDone && event.totalBytes > 0 && event.doneBytes >= event.totalBytes) {
      file.isDone = true;
      this.doneFiles += 1;
    }
  }
}

function newFile(name: string, totalBytes: number): FileProgress {
  return { name, totalBytes, doneBytes: 0, startedAtMs: null, isDone: false, pace: new Pace() };
}

const PACE_WINDOW_MS = 5000;
const PACE_STEP_MS = 200;

/**
 * Bytes per second over the last five seconds: long enough to be steady, short enough to show a
 * stall.
 */
export class Pace {
  #samples: { atMs: number; bytes: number }[] = [];

  restart(nowMs: number): void {
    this.#samples = [{ atMs: nowMs, bytes: 0 }];
  }

  add(nowMs: number, bytes: number): void {
    const last = this.#samples.at(-1);
    if (last === undefined) {
      this.#samples.push({ atMs: nowMs, bytes: 0 });
      return;
    }
    const previous = this.#samples.at(-2);
    if (previous !== undefined && nowMs - previous.atMs < PACE_STEP_MS) this.#samples.pop();
    this.#samples.push({ atMs: nowMs, bytes });
    while (this.#samples.length > 2 && nowMs - (this.#samples[1]?.atMs ?? nowMs) > PACE_WINDOW_MS)
      this.#samples.shift();
  }

  /** `null` while there is too little data. */
  bytesPerSecond(nowMs: number): number | null {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined || last.bytes <= first.bytes) return null;
    const spanMs = nowMs - first.atMs;
    return spanMs < PACE_STEP_MS ? null : ((last.bytes - first.bytes) * 1000) / spanMs;
  }
}
