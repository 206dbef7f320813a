/** State of one save, derived from its events. Pure: times are passed in. */

import { jsonReady, type ProgressEvent, type WriterPosition } from '@holdfast/core/contract';
import type { SaveInFlight } from './saver.ts';

interface FileProgress {
  doneBytes: number;
  totalBytes: number;
}

export interface LastRetry {
  readonly detail: string;
  readonly atMs: number;
}

export class SaveProgress {
  readonly #calledMs: number;
  readonly #files = new Map<string, FileProgress>();
  #version: bigint | null;
  #writer: WriterPosition;
  #isStaged = false;
  #totalBytes = 0;
  #heardMs: number;
  #lastRetry: LastRetry | null = null;
  #missingWriters: readonly number[] = [];

  /** `calledMs`: when the caller requested the save. `begunMs`: when its turn came. */
  constructor(save: { version: bigint | null; writer: WriterPosition; calledMs: number; begunMs: number }) {
    this.#version = save.version;
    this.#writer = save.writer;
    this.#calledMs = save.calledMs;
    this.#heardMs = save.begunMs;
  }

  get isStaged(): boolean {
    return this.#isStaged;
  }

  get writer(): WriterPosition {
    return this.#writer;
  }

  /** When the save last made progress. Repeats and events without news do not count. */
  get heardMs(): number {
    return this.#heardMs;
  }

  get lastRetry(): LastRetry | null {
    return this.#lastRetry;
  }

  hear(event: ProgressEvent, nowMs: number): void {
    if (event.type === 'retry') this.#lastRetry = { detail: event.detail, atMs: nowMs };
    else if (this.#getsOn(event)) this.#heardMs = nowMs;
  }

  /** The file that is furthest behind; `null` if no unfinished file is known. */
  get slowest(): { readonly name: string; readonly doneBytes: number; readonly totalBytes: number } | null {
    let slowest: { name: string; doneBytes: number; totalBytes: number } | null = null;
    for (const [name, { doneBytes, totalBytes }] of this.#files) {
      // Files start in order, so of those without bytes only the first can be in progress.
      if (doneBytes >= totalBytes || (doneBytes === 0 && slowest !== null)) continue;
      const isBehind = slowest === null || doneBytes * slowest.totalBytes < slowest.doneBytes * totalBytes;
      if (isBehind || slowest?.doneBytes === 0) slowest = { name, doneBytes, totalBytes };
    }
    return slowest;
  }

  inFlight(nowMs: number): SaveInFlight {
    return jsonReady({
      version: this.#version,
      writer: this.#writer,
      elapsedMs: nowMs - this.#calledMs,
      doneBytes: [...this.#files.values()].reduce((sum, { doneBytes }) => sum + doneBytes, 0),
      totalBytes: this.#totalBytes,
      file: this.slowest?.name ?? null,
      silentMs: nowMs - this.#heardMs,
      missingWriters: this.#missingWriters,
    });
  }

  #getsOn(event: Exclude<ProgressEvent, { type: 'retry' }>): boolean {
    switch (event.type) {
      case 'staged':
        this.#isStaged = true;
        this.#totalBytes = event.sizeBytes;
        return true;
      case 'joined':
        this.#version = event.version;
        this.#writer = event.writer;
        return true;
      case 'planned':
        for (const { name, sizeBytes } of event.files)
          this.#files.set(name, { doneBytes: 0, totalBytes: sizeBytes });
        return true;
      case 'bytes':
        return this.#hearBytes(event);
      case 'delivered':
        this.#missingWriters = event.missingWriters;
        return true;
      case 'waiting':
        return this.#hearWaiting(event.missingWriters);
      default:
        return true;
    }
  }

  #hearBytes({ name, doneBytes, totalBytes }: Extract<ProgressEvent, { type: 'bytes' }>): boolean {
    const before = this.#files.get(name);
    this.#files.set(name, { doneBytes, totalBytes });
    return doneBytes > (before?.doneBytes ?? 0);
  }

  /** True if another writer has delivered. */
  #hearWaiting(missingWriters: readonly number[]): boolean {
    const hasDelivered = this.#missingWriters.some((writer) => !missingWriters.includes(writer));
    this.#missingWriters = missingWriters;
    return hasDelivered;
  }
}
