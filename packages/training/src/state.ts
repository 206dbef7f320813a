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

  /** A copy that later steps do not change. Called before each step, and before each rendezvous. */
  abstract snapshot(): Snapshot | null;

  /** Sets all of the state to a snapshot's, whatever it was; `sync` follows. `null`: nothing is to be done. */
  abstract apply(snapshot: Snapshot | null): void;

  /** Writes what `load` reads, and leaves the stream open. */
  abstract save(stream: WritableStream<Uint8Array>): Promise<void>;

  abstract load(stream: ReadableStream<Uint8Array>): Promise<void>;

  /** After each step. All ranks answer the same, or they wait for each other for nothing. */
  abstract shouldSaveCheckpoint(rank: number): boolean;
}
