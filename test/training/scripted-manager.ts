import {
  createThrottle,
  type ProgressEvent,
  type RunManager,
  type SaveOptions,
  type SaveResult,
} from '@holdfast/core';

/** A save whose course the test decides. */
export class ScriptedSave {
  readonly options: SaveOptions;
  readonly version: bigint;
  readonly #end = Promise.withResolvers<SaveResult>();
  isOver = false;

  constructor(options: SaveOptions, version: bigint) {
    this.options = options;
    this.version = version;
    // The reaction of a manager whose save is stopped.
    options.signal?.addEventListener('abort', () => this.whenStopped(options.signal?.reason));
  }

  /** May be replaced: a save may have taken effect when it is stopped. */
  whenStopped = (reason: unknown): void => this.fail(reason);

  get result(): Promise<SaveResult> {
    return this.#end.promise;
  }

  tell(event: ProgressEvent): void {
    this.options.onProgress?.(event);
  }

  stage(sizeBytes = 100): void {
    this.tell({ type: 'staged', sizeBytes });
  }

  /** Joined and planned, as writer 1 of 4. */
  begin(files: Readonly<Record<string, number>>): void {
    const { version } = this;
    this.stage(Object.values(files).reduce((sum, size) => sum + size, 0));
    this.tell({ type: 'joined', version, writer: { index: 1, count: 4 }, epoch: 1, tookOver: false });
    const planned = Object.entries(files).map(([name, sizeBytes]) => ({ name, sizeBytes }));
    this.tell({ type: 'planned', version, fileCount: planned.length, sizeBytes: 0, files: planned });
  }

  commit(): void {
    this.isOver = true;
    // The other fields are not used.
    this.#end.resolve({ version: this.version, isCommitted: true } as SaveResult);
  }

  fail(error: unknown): void {
    this.isOver = true;
    this.#end.reject(error);
  }
}

/** A manager that only saves. The test decides the course of each save. */
export class ScriptedManager {
  readonly throttle = createThrottle();
  readonly saves: ScriptedSave[] = [];
  /** The highest number of saves in progress at once. */
  inFlightMax = 0;
  /** Called with each save after it has started. */
  onSave: (save: ScriptedSave) => void = () => undefined;

  /** For code that takes a manager. It does not use the other members. */
  get asManager(): RunManager {
    return this as unknown as RunManager;
  }

  get last(): ScriptedSave {
    const save = this.saves.at(-1);
    if (save === undefined) throw new Error('nothing was saved yet');
    return save;
  }

  save(options: SaveOptions): Promise<SaveResult> {
    const save = new ScriptedSave(options, BigInt(options.version ?? this.saves.length + 1));
    this.saves.push(save);
    this.inFlightMax = Math.max(this.inFlightMax, this.saves.filter(({ isOver }) => !isOver).length);
    this.onSave(save);
    return save.result;
  }
}

/** Runs all continuations that wait only for promises. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
