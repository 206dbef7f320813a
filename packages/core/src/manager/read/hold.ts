/** One read lease for everything that is opened from one checkpoint object. */

import { whenDropped } from '../../contract/dropped.ts';
import { CheckpointError } from '../../contract/errors.ts';
import type { CatalogCheckpoint, Manifest } from '../../format/index.ts';
import { requireById } from '../../plan/select.ts';
import { readManifest, waitAtMost } from '../records/index.ts';
import { type OpenedFile, type RunContext, unlessRemovedMeanwhile } from '../run/index.ts';
import type { LeaseHolder } from './lease.ts';
import { leaseCheckpoint } from './restore.ts';

/** Longest wait of the caller, whatever the store does. */
const END_TIMEOUT_MS = 800;
/** If the lease cannot be deleted within this time, it is left to expire. */
const RELEASE_TIMEOUT_MS = 1000;

export interface Held {
  readonly lease: LeaseHolder;
  readonly manifest: Manifest;
}

/**
 * Taken when it is made, released by `end`, or when the caller has dropped `handle`, to which it
 * must not refer.
 */
export class Hold implements OpenedFile {
  /** `NotFound`: the checkpoint is not live any more. */
  readonly held: Promise<Held>;
  readonly #run: RunContext;
  readonly #stop = new AbortController();
  readonly #forgetHandle: () => void;
  #lease: LeaseHolder | undefined;

  constructor(run: RunContext, checkpoint: CatalogCheckpoint, handle: object) {
    this.#run = run;
    run.openFiles.add(this);
    const { version } = checkpoint.id;
    const end = () => void this.end(new CheckpointError('Aborted', `version ${version} was dropped`));
    this.#forgetHandle = whenDropped(handle, end);
    this.held = this.#take(checkpoint);
  }

  /** Files that are still open lose its protection. Ends as `OpenFile.end` does. */
  async end(why: CheckpointError): Promise<void> {
    this.#forgetHandle();
    this.#stop.abort(why);
    await waitAtMost(this.#run.clock, END_TIMEOUT_MS, this.#release());
    this.#run.openFiles.delete(this);
  }

  async #release(): Promise<void> {
    await this.held.catch(() => undefined);
    await this.#lease?.release({ timeoutMs: RELEASE_TIMEOUT_MS });
  }

  async #take(checkpoint: CatalogCheckpoint): Promise<Held> {
    const { signal } = this.#stop;
    const { lease } = await leaseCheckpoint(
      this.#run,
      ({ state }) => requireById(state, checkpoint.id),
      signal,
    );
    this.#lease = lease;
    try {
      return { lease, manifest: await readManifest(this.#run, checkpoint, signal) };
    } catch (error) {
      throw await unlessRemovedMeanwhile(this.#run, checkpoint, error, signal);
    } finally {
      lease.rest();
    }
  }
}
