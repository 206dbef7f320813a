import { buffer } from 'node:stream/consumers';
import { State } from '@holdfast/training';

/** A process that is started again goes on with what the one before has sent. */
export const ATTEMPT = 'job-1';
/** In this step the process waits for its notice. */
export const WAITS_AT_STEP = 5;
/** Is sent in parts. */
export const SIZE_BYTES = 20 * 1024 ** 2;

/** Counts steps, and is of some size. Saved after every second step. */
export class CountingState extends State {
  value = 0;

  async sync(): Promise<void> {} // one worker counts

  override async save(stream: WritableStream<Uint8Array>): Promise<void> {
    const bytes = Buffer.alloc(SIZE_BYTES, this.value);
    await ReadableStream.from([bytes]).pipeTo(stream);
  }

  override async load(stream: ReadableStream<Uint8Array>): Promise<void> {
    this.value = (await buffer(stream))[SIZE_BYTES - 1] ?? Number.NaN;
  }

  override shouldSaveCheckpoint(): boolean {
    return this.value % 2 === 0;
  }
}
