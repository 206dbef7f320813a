/**
 * Takes the bytes of a save. The options say which moment the bytes belong to, whether training
 * pauses meanwhile, and whether the bytes are copied first.
 */

import type { Consistency, ConsistencyOptions, SaveOptions } from '../../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import type { Stage, StagedCopy } from '../../contract/staging.ts';
import { type Taken, toVersion } from '../../format/index.ts';
import { totalBytes } from '../../plan/stored-file.ts';
import { machineTimeMs } from '../records/index.ts';
import type { RunContext } from '../run/index.ts';
import { hookError, whilePaused } from './pause.ts';
import type { NamedSource, Sources } from './sources.ts';

const PAUSE_TIMEOUT_MS = 60_000;
const RECORDED = { paused: 'PAUSED', polluted: 'POLLUTED' } as const satisfies Record<Consistency, string>;

type CaptureOptions = ConsistencyOptions &
  Pick<SaveOptions, 'staging' | 'onProgress'> & { signal: AbortSignal };

/** `version`: that of the save, if it is known already. */
export function checkCapture(options: ConsistencyOptions, version: bigint | undefined): void {
  const { consistency, stateVersion, pause } = options;
  const isPaused = consistency === 'paused';
  if (isPaused && typeof pause !== 'function') {
    throw invalid(`consistency "paused" needs a function \`pause\`, which is ${typeof pause}`);
  }
  if (!isPaused && (pause ?? options.pauseTimeoutMs) !== undefined) {
    throw invalid('`pause` and `pauseTimeoutMs` are for consistency "paused"');
  }
  if (consistency === undefined && stateVersion !== undefined) {
    throw invalid('`stateVersion` is for a save that says its `consistency`, "paused" or "polluted"');
  }
  if (stateVersion !== undefined && typeof stateVersion !== 'function') {
    assertSameVersion(consistency, toStateVersion(stateVersion), version);
  }
}

/** One per save. Call `stage` first, then `read` at most once, and always `release`. */
export class Capture {
  readonly #run: RunContext;
  readonly #options: CaptureOptions;
  readonly #assertUnchanged: Sources['assertUnchanged'];
  #sources: readonly NamedSource[];
  #stage: Stage | undefined;
  #moment: { readonly stateVersion: bigint | undefined; readonly atMs: number } | undefined;

  constructor(run: RunContext, { files, assertUnchanged }: Sources, options: CaptureOptions) {
    this.#run = run;
    this.#sources = files;
    this.#assertUnchanged = assertUnchanged;
    this.#options = options;
  }

  /** The sources to send. Once there are copies, these are the copies. */
  get sources(): readonly NamedSource[] {
    return this.#sources;
  }

  /**
   * With a staging: copies everything, after which training continues. Without: does nothing, and
   * the bytes are taken when they are read.
   */
  async stage(version: bigint | undefined): Promise<void> {
    const { staging, onProgress } = this.#options;
    if (!staging) return;
    await this.#take('copying the files', version, async (signal) => {
      this.#stage = await staging.stage(this.#sources.map(stagingSource), { signal });
      // Before training is told that it may go on.
      await this.#assertUnchanged?.();
      this.#sources = copiedSources(this.#sources, this.#stage.copies);
      onProgress?.({ type: 'staged', sizeBytes: totalBytes(this.#sources) });
    });
  }

  /** Runs `work`, which reads all bytes for the last time. */
  async read<T>(
    version: bigint,
    work: (sources: readonly NamedSource[], signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    if (!this.#stage) {
      return this.#take('sending the files', version, async (signal) => {
        const result = await work(this.#sources, signal);
        await this.#assertUnchanged?.();
        return result;
      });
    }
    assertSameVersion(this.#options.consistency, this.#moment?.stateVersion, version);
    const result = await work(this.#sources, this.#options.signal);
    await this.release(); // the next save may want the room while this one waits for other writers
    return result;
  }

  /** What the receipt says about the bytes that were taken; `undefined` if it says nothing. */
  taken(version: bigint): Taken | undefined {
    const { consistency } = this.#options;
    if (consistency === undefined || !this.#moment) return undefined;
    const { stateVersion = version, atMs } = this.#moment;
    return { consistency: RECORDED[consistency], stateVersion, takenAtMs: atMs };
  }

  /** Safe to repeat. */
  async release(): Promise<void> {
    await this.#stage?.release();
  }

  #take<T>(what: string, version: bigint | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { pause: hook, pauseTimeoutMs: timeoutMs = PAUSE_TIMEOUT_MS, signal } = this.#options;
    const noted = async (until: AbortSignal) => {
      this.#note(version);
      return work(until);
    };
    return hook ? whilePaused(this.#run, { hook, timeoutMs, signal, what }, noted) : noted(signal);
  }

  #note(version: bigint | undefined): void {
    const { consistency, stateVersion: given } = this.#options;
    if (consistency === undefined) return;
    const known =
      given === undefined ? undefined : toStateVersion(typeof given === 'function' ? ask(given) : given);
    assertSameVersion(consistency, known, version);
    this.#moment = { stateVersion: known, atMs: machineTimeMs(this.#run) };
  }
}

function ask<T>(stateVersion: () => T): T {
  try {
    return stateVersion();
  } catch (error) {
    throw hookError('stateVersion()', error);
  }
}

function toStateVersion(input: Parameters<typeof toVersion>[0]): bigint {
  try {
    return toVersion(input);
  } catch (error) {
    throw isCheckpointError(error) ? invalid(`stateVersion: ${error.message}`) : error;
  }
}

/**
 * With consistency "paused", all writers must save a state of the same version. Passes while the
 * version of the state or of the save is unknown.
 */
function assertSameVersion(
  consistency: Consistency | undefined,
  stateVersion: bigint | undefined,
  version: bigint | undefined,
): void {
  if (consistency !== 'paused' || stateVersion === undefined || version === undefined) return;
  if (stateVersion === version) return;
  throw invalid(
    `the state to be saved as version ${version} is of version ${stateVersion}; with consistency "paused" both must be the same`,
  );
}

function stagingSource({ name, source }: NamedSource) {
  if ('lent' in source) throw new Error(`${name} is in another store, and such files are never staged`);
  return { name, source };
}

function copiedSources(sources: readonly NamedSource[], copies: readonly StagedCopy[]): NamedSource[] {
  if (copies.length !== sources.length) {
    throw new CheckpointError(
      'Unexpected',
      `the staging made ${copies.length} copies of ${sources.length} files; it must make one of each`,
    );
  }
  return sources.map(({ name }, index) => {
    const copy = copies[index] as StagedCopy;
    return { name, sizeBytes: copy.sizeBytes, source: { open: () => copy.open() } };
  });
}

function invalid(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
