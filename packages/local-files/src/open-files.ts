import type { DirectFile } from './direct-file.ts';

/** A file that was removed takes room as long as it is open. */
export const IDLE_MS = 5000;

interface OpenFile {
  readonly identity: string;
  readonly file: Promise<DirectFile>;
  /** Since the last look for idle files. */
  isUsed: boolean;
}

/**
 * Keeps the most recently used files open, so that a file read in many ranges is opened once. An
 * evicted or dropped file is closed when its reads have ended, and so is one that was not used for
 * `IDLE_MS` to twice that.
 */
export class OpenFiles {
  readonly #filesMax: number;
  readonly #files = new Map<string, OpenFile>();
  readonly #closing = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(filesMax: number) {
    this.#filesMax = filesMax;
  }

  /**
   * `identity` tells apart files that had the same path. `open` is called only if no file of this
   * identity is open.
   */
  async use<T>(
    name: { readonly path: string; readonly identity: string },
    open: () => Promise<DirectFile>,
    work: (file: DirectFile) => Promise<T>,
  ): Promise<T> {
    const { path, identity } = name;
    let entry = this.#files.get(path);
    if (entry?.identity === identity) {
      this.#files.delete(path); // Put it back as the most recently used.
    } else {
      this.drop(path);
      const file = open();
      entry = { identity, file, isUsed: true };
      file.catch(() => {
        if (this.#files.get(path)?.file === file) this.#files.delete(path);
      });
    }
    entry.isUsed = true;
    this.#files.set(path, entry);
    this.#closeOldest();
    this.#timer ??= setInterval(() => this.#closeIdle(), IDLE_MS).unref();
    // Nothing may run between this and `work`: a file closes only after the calls that have begun.
    return work(await entry.file);
  }

  drop(path: string): void {
    const entry = this.#files.get(path);
    if (entry === undefined) return;
    this.#files.delete(path);
    const closing = entry.file.then(
      (file) => file.close(),
      () => {
        // The file was never opened. The caller that asked for it got the error.
      },
    );
    const forget = () => this.#closing.delete(closing);
    this.#closing.add(closing);
    closing.then(forget, forget);
  }

  /** Waits for pending reads. */
  async close(): Promise<void> {
    this.#stopTimer();
    for (const path of [...this.#files.keys()]) this.drop(path);
    await Promise.all(this.#closing);
  }

  #closeIdle(): void {
    for (const [path, entry] of [...this.#files]) {
      if (!entry.isUsed) this.drop(path);
      entry.isUsed = false;
    }
    if (this.#files.size === 0) this.#stopTimer();
  }

  #stopTimer(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #closeOldest(): void {
    if (this.#files.size <= this.#filesMax) return;
    const [oldest] = this.#files.keys();
    if (oldest !== undefined) this.drop(oldest);
  }
}
