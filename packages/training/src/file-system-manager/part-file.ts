import { constants } from 'node:fs';
import { type FileSystem, fileError } from '@holdfast/local-files';

/** A file that is written once, from start to end. After a failure it is never trusted again. */
export class PartFile {
  readonly #path: string;
  readonly #fileSystem: FileSystem;
  #descriptor: number | null = null;
  #offsetBytes = 0;
  /**
   * The call in progress. Closing the descriptor during it is unsafe: the number may already belong
   * to another file.
   */
  #running: Promise<void> = Promise.resolve();

  constructor(path: string, fileSystem: FileSystem) {
    this.#path = path;
    this.#fileSystem = fileSystem;
  }

  open(): Promise<void> {
    return this.#run('create', async () => {
      const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
      this.#descriptor = await this.#fileSystem.open(this.#path, flags);
    });
  }

  write(buffer: Uint8Array): Promise<void> {
    return this.#run('write', async (descriptor) => {
      for (let start = 0; start < buffer.byteLength; ) {
        const lengthBytes = buffer.byteLength - start;
        const position = { buffer, start, lengthBytes, offsetBytes: this.#offsetBytes };
        const count = await this.#fileSystem.write(descriptor, position);
        start += count;
        this.#offsetBytes += count;
      }
    });
  }

  /** Makes the bytes durable; the name is not durable yet. */
  async finish(): Promise<void> {
    await this.#run('write', (descriptor) => this.#fileSystem.fsync(descriptor));
    await this.#close();
  }

  /** Safe to repeat, and after `finish`. */
  async abandon(): Promise<void> {
    await this.#running.catch(() => undefined); // the caller of that operation has the error
    await this.#close().catch(() => undefined); // the file is discarded
  }

  #run(action: string, call: (descriptor: number) => Promise<void>): Promise<void> {
    this.#running = call(this.#descriptor ?? -1).catch((error: unknown) => {
      throw fileError(error, `${action} ${this.#path}`, { path: this.#path });
    });
    return this.#running;
  }

  async #close(): Promise<void> {
    const descriptor = this.#descriptor;
    this.#descriptor = null;
    if (descriptor === null) return;
    try {
      await this.#fileSystem.close(descriptor);
    } catch (error) {
      throw fileError(error, `close ${this.#path}`, { path: this.#path });
    }
  }
}
