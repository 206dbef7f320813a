/** A restore to a directory, which several callers may wait for. */

import {
  CheckpointError,
  type CheckpointReference,
  type RunManager,
  toCheckpointError,
} from '@holdfast/core';
import { numberOf, type RestoreRequest, type RestoreView } from '../api/shapes.ts';
import { Changes } from '../changes.ts';
import { problemOf } from '../problem.ts';
import { findCheckpoint, referenceTo } from './held-checkpoints.ts';
import { restoreShards } from './restore-shards.ts';

export class RestoreJob {
  readonly request: RestoreRequest;
  readonly #stop = new AbortController();
  readonly #changes = new Changes();
  #view: RestoreView;
  #ended: Promise<void> = Promise.resolve();
  #isLeftToNext = false;

  constructor(request: RestoreRequest) {
    this.request = request;
    this.#view = {
      restoreId: request.restoreId,
      state: 'restoring',
      version: null,
      fileCount: 0,
      sizeBytes: 0,
      skipped: [],
      suspicions: [],
      error: null,
    };
  }

  get isUnderWay(): boolean {
    return this.#view.state === 'restoring';
  }

  /** `Unavailable`: the agent stopped it. Its successor begins it anew. */
  view(): RestoreView {
    if (this.#isLeftToNext && this.#view.state !== 'restored')
      throw new CheckpointError('Unavailable', 'the agent stopped before the restore had ended');
    return this.#view;
  }

  /** `use`: gives the manager of the run as long as the work takes. */
  start(use: (work: (manager: RunManager) => Promise<void>) => Promise<void>): void {
    this.#ended = use((manager) => this.#run(manager))
      .catch((error: unknown) => {
        this.#view = { ...this.#view, state: 'failed', error: problemOf(error) };
      })
      .finally(() => this.#changes.note());
  }

  async waitUntil(untilMs: number, signal: AbortSignal): Promise<void> {
    await this.#changes.until(() => !this.isUnderWay, untilMs, signal);
  }

  async cancel(): Promise<void> {
    this.#stop.abort(new CheckpointError('Aborted', 'the caller stopped the restore'));
    await this.#ended;
  }

  /** Stops the work, and tells no end: the caller did not stop it. */
  async leaveToNext(): Promise<void> {
    this.#isLeftToNext = this.isUnderWay;
    await this.cancel();
  }

  async #run(manager: RunManager): Promise<void> {
    const { shard, exportAs } = this.request;
    const signal = this.#stop.signal;
    try {
      const restored =
        shard || exportAs
          ? await restoreShards(manager, this.request, signal)
          : await this.#restoreFiles(manager);
      this.#view = { ...this.#view, ...restored, state: 'restored' };
    } catch (error) {
      throw toCheckpointError(error);
    }
  }

  /** `NotFound`: it has another manifest than was asked for. */
  async #which(manager: RunManager): Promise<CheckpointReference> {
    const { uri, manifestKey } = this.request;
    const version = String(this.request.version);
    const lineage = numberOf(this.request.lineage);
    if (manifestKey !== undefined) await findCheckpoint(manager, { uri, version, lineage, manifestKey });
    return referenceTo(version, lineage);
  }

  async #restoreFiles(manager: RunManager) {
    const { version, to, only, onCorrupt, replace, mtimes } = this.request;
    const result = await manager.restore({
      version: version === 'latest' ? version : await this.#which(manager),
      ...{ to, only, onCorrupt, replace, mtimes, signal: this.#stop.signal },
    });
    return {
      version: String(result.version),
      fileCount: result.fileCount,
      sizeBytes: result.sizeBytes,
      skipped: result.skipped.map((one) => ({ version: String(one.version), reason: one.reason })),
    };
  }
}
