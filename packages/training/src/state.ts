import { buffer } from 'node:stream/consumers';
import { DefaultSerializer, deserialize } from 'node:v8';
import { CheckpointError } from '@holdfast/core/contract';

/**
 * What a trainer carries from step to step: model, optimizer, position in the data. `Snapshot` is a
 * copy of all that a step may change. `null` as a snapshot switches rollback off.
 */
export abstract class State<Snapshot = unknown> {
  /**
   * Makes all workers equal at the start of a world: the same model, and the data position that all
   * have reached. Called on every rank after each rendezvous, after a checkpoint was loaded or a
   * snapshot applied.
   */
  abstract sync(worldSize: number, rank: number): Promise<void>;

  /**
   * Returns a copy that later steps do not change. Called before each step and before each
   * rendezvous. Default: `null`.
   */
  snapshot(): Snapshot | null {
    return null;
  }

  /**
   * Replaces the whole state with a snapshot, whatever it was; `sync` follows. `null`: does
   * nothing. A class that overrides `snapshot` must override this too: the default throws
   * `Unsupported` for any snapshot except `null`.
   */
  apply(snapshot: Snapshot | null): void {
    if (snapshot === null) return;
    throw new CheckpointError(
      'Unsupported',
      `${this.constructor.name} has snapshots, but no apply() for them`,
    );
  }

  /**
   * Writes what `load` reads and leaves the stream open. The default writes the snapshot as
   * `node:v8` serializes it, which needs memory for one more whole copy. The default throws
   * `Unsupported` if the snapshot is `null`, because the checkpoint would be empty, and if one
   * typed array in it has 4 GiB or more, which that format cannot hold.
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
      await writer.write(toBytes(snapshot));
    } finally {
      writer.releaseLock();
    }
  }

  /**
   * Replaces the whole state with what `save` wrote. The default applies the snapshot, and throws
   * `Corrupt` if the bytes hold none. Any error except a read error means that these bytes are
   * unusable; the train loop then tries an older checkpoint.
   */
  async load(stream: ReadableStream<Uint8Array>): Promise<void> {
    this.apply(toSnapshot(await buffer(stream)) as Snapshot);
  }

  /**
   * Called after each step. All ranks must answer the same; otherwise they wait for each other in
   * vain. Default: never.
   */
  shouldSaveCheckpoint(_rank: number): boolean {
    return false;
  }
}

/** The format of `node:v8` records the size of a typed array in 32 bits, without a check. */
const VIEW_BYTES_MAX = 2 ** 32 - 1;

class SnapshotSerializer extends DefaultSerializer {
  /** Called for each typed array, `DataView` and `Buffer`. */
  _writeHostObject(view: ArrayBufferView): void {
    if (view.byteLength > VIEW_BYTES_MAX) {
      const message = `the snapshot holds an array of ${view.byteLength} bytes; the default save() takes at most ${VIEW_BYTES_MAX} in one array: use several, or override save() and load()`;
      throw new CheckpointError('Unsupported', message);
    }
    writeView.call(this, view);
  }
}

/** A method of the base class that @types/node does not declare. */
const writeView = (
  DefaultSerializer.prototype as unknown as {
    _writeHostObject(this: DefaultSerializer, view: ArrayBufferView): void;
  }
)._writeHostObject;

function toBytes(snapshot: unknown): Uint8Array {
  const serializer = new SnapshotSerializer();
  serializer.writeHeader();
  serializer.writeValue(snapshot);
  return serializer.releaseBuffer();
}

function toSnapshot(bytes: Buffer): unknown {
  try {
    return deserialize(bytes);
  } catch (cause) {
    throw new CheckpointError(
      'Corrupt',
      `${bytes.byteLength} bytes are not a snapshot that node:v8 serialized`,
      {
        cause,
      },
    );
  }
}
