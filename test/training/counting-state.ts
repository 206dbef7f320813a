import { buffer } from 'node:stream/consumers';
import { State } from '@holdfast/training';

/** A restarted process continues with the parts that the previous one has sent. */
export const ATTEMPT = 'job-1';
/** The process waits for its notice in this step. */
export const WAITS_AT_STEP = 5;
/** Large enough to be sent in parts. */
export const SIZE_BYTES = 20 * 1024 ** 2;

/** Counts steps, and has a large state. Saved after every second step. */
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
