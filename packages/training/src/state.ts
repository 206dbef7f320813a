import { buffer } from 'node:stream/consumers';
import { deserialize, serialize } from 'node:v8';
import { CheckpointError } from '@holdfast/core/contract';

/**
 * What a trainer carries from step to step: model, optimizer, place in the data. `Snapshot` is a copy of all that a step may change; `null`
 * says that there is nothing to go back to, which switches rollback off.
 */
export abstract class State<Snapshot = unknown> {
  /**
   * Makes all workers alike at the beginning of a world: the model of one, the place in the data that all have reached. Called after each
   * rendezvous, on every rank, after a checkpoint was loaded or a snapshot applied.
   */
  abstract sync(worldSize: number, rank: number): Promise<void>;

  /** A copy that later steps do not change. Called before each step, and before each rendezvous. Unless overridden: `null`. */
  snapshot(): Snapshot | null {
    return null;
  }

  /**
   * Sets all of the state to a snapshot's, whatever it was; `sync` follows. `null`: nothing is to be done. Whoever overrides `snapshot`
   * overrides this one too: here any other snapshot is `Unsupported`.
   */
  apply(snapshot: Snapshot | null): void {
    if (snapshot === null) return;
    throw new CheckpointError(
      'Unsupported',
      `${this.constructor.name} has snapshots, but no apply() for them`,
    );
  }

  /**
   * Writes what `load` reads, and leaves the stream open. Unless overridden: a snapshot as `node:v8` serializes it, whole in memory once
   * more; `Unsupported` if that is `null`, for such a checkpoint would hold nothing.
   */
  async save(stream: WritableStream<Uint8Array>): Promise<void> {
    const snapshot = this.snapshot();
    if (snapshot === null) {
      throw new CheckpointError(
        'Unsupported',
        `${this.constructor.name} has nothing to save: snapshot() gives null; override snapshot() and apply(), or save() and load()`,
      );
    }
    const writer = stream.getWriter();
    try {
      await writer.write(serialize(snapshot));
    } finally {
      writer.releaseLock();
    }
  }

  /**
   * Sets all of the state to what `save` wrote. Unless overridden: applies the snapshot; `Corrupt` if the bytes are none. Any error but
   * those of reading means that these bytes are of no use, and the train loop goes back to an older checkpoint.
   */
  async load(stream: ReadableStream<Uint8Array>): Promise<void> {
    this.apply(toSnapshot(await buffer(stream)) as Snapshot);
  }

  /** After each step. All ranks answer the same, or they wait for each other for nothing. Unless overridden: never. */
  shouldSaveCheckpoint(_rank: number): boolean {
    return false;
  }
}

function toSnapshot(bytes: Buffer): unknown {
  try {
    return deserialize(bytes);
  } catch (cause) {
    throw new CheckpointError(
      'Corrupt',
      `${bytes.byteLength} bytes are no snapshot that node:v8 serialized`,
      {
        cause,
      },
    );
  }
}
