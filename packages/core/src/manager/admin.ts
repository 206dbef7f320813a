/** The calls with which people and tools look after a run. */

import type {
  AnnotateOptions,
  CheckpointId,
  CheckpointReference,
  MirrorOptions,
  MirrorResult,
  VerifyOptions,
  VerifyResult,
  WaitOptions,
} from '../contract/checkpoint-manager.ts';
import { type Rules, text } from '../contract/checks.ts';
import { CheckpointError } from '../contract/errors.ts';
import type { ExportTensorsOptions, ExportTensorsResult } from '../contract/exporting.ts';
import type {
  DiffOptions,
  DiffResult,
  ForkOptions,
  ForkResult,
  InspectOptions,
  InspectResult,
  Lease,
  LeaseOptions,
  LocateOptions,
  LocateResult,
  RollbackOptions,
  RollbackResult,
} from '../contract/history.ts';
import { jsonReady } from '../contract/json.ts';
import type { CallOptions } from '../contract/object-store.ts';
import type { OverviewOptions, RunOverview } from '../contract/overview.ts';
import type {
  CollectOptions,
  CollectResult,
  RetentionOptions,
  RetentionPlan,
  RetentionPolicy,
} from '../contract/retention.ts';
import type { LogEntry, LogOptions, RunAdmin, RunManager } from '../contract/run-manager.ts';
import type { BegunVersion, FsckResult, RebuildOptions, RebuildResult } from '../contract/upkeep.ts';
import { CALL_RULES, referenceOrLatest } from './call-rules.ts';
import type { Calls } from './calls.ts';
import { annotate, begun, overview } from './commit/index.ts';
import { collect, pin, planOnly, retention, setRetention, undelete, unpin } from './keep/index.ts';
import { fsck, rebuildCatalog, releaseSkipped, verify } from './mend/index.ts';
import { fork, mirror, rollback } from './move/index.ts';
import { callersLeases, locate, readLog, releaseLease, takeLease } from './read/index.ts';
import { findRunsBelow, type RunContext } from './run/index.ts';
import { diff, exportTensors, inspect } from './tensors/index.ts';

export class Admin implements RunAdmin {
  readonly #run: RunContext;
  readonly #calls: Calls;

  constructor(run: RunContext, calls: Calls) {
    this.#run = run;
    this.#calls = calls;
  }

  async mirrorFrom(source: RunManager, options: MirrorOptions = {}): Promise<MirrorResult> {
    const { from, bounded } = this.#withSource(source, options, CALL_RULES.mirror);
    const reason = `mirror of ${from.store.uri}`;
    const mirrored = mirror(from, this.#run, { ...bounded, caller: options.signal, reason });
    return this.#calls.thenRetain(mirrored).then(jsonReady);
  }

  async forkFrom(source: RunManager, options: ForkOptions = {}): Promise<ForkResult> {
    const { from, bounded } = this.#withSource(source, options, CALL_RULES.fork);
    const forked = fork(from, this.#run, { ...bounded, caller: options.signal });
    return this.#calls.thenRetain(forked).then(jsonReady);
  }

  async rollback(options: RollbackOptions): Promise<RollbackResult> {
    return jsonReady(await rollback(this.#run, this.#calls.bounded(options, CALL_RULES.rollback)));
  }

  async diff(
    before: CheckpointReference | 'latest',
    after: CheckpointReference | 'latest',
    options: DiffOptions = {},
  ): Promise<DiffResult> {
    referenceOrLatest('before', before);
    referenceOrLatest('after', after);
    return jsonReady(await diff(this.#run, [before, after], this.#calls.bounded(options, CALL_RULES.diff)));
  }

  async inspect(options: InspectOptions = {}): Promise<InspectResult> {
    return jsonReady(await inspect(this.#run, this.#calls.bounded(options, CALL_RULES.inspect)));
  }

  async exportTensors(options: ExportTensorsOptions): Promise<ExportTensorsResult> {
    return jsonReady(await exportTensors(this.#run, this.#calls.bounded(options, CALL_RULES.exportTensors)));
  }

  async locate(options: LocateOptions = {}): Promise<LocateResult> {
    return jsonReady(await locate(this.#run, this.#calls.bounded(options, CALL_RULES.locate)));
  }

  async lease(options: LeaseOptions): Promise<Lease> {
    return jsonReady(await takeLease(this.#run, this.#calls.bounded(options, CALL_RULES.lease)));
  }

  async releaseLease(id: string, options: WaitOptions = {}): Promise<boolean> {
    return releaseLease(this.#run, id, this.#calls.bounded(options, CALL_RULES.wait));
  }

  async leases(options: WaitOptions & { version?: CheckpointReference | undefined } = {}): Promise<Lease[]> {
    return jsonReady(await callersLeases(this.#run, this.#calls.bounded(options, CALL_RULES.leases)));
  }

  async verify(options: VerifyOptions = {}): Promise<VerifyResult> {
    return jsonReady(await verify(this.#run, this.#calls.bounded(options, CALL_RULES.verify)));
  }

  async runsBelow(options: CallOptions = {}): Promise<readonly string[]> {
    const { signal } = this.#calls.bounded(options, CALL_RULES.call);
    return (await findRunsBelow(this.#run.records, { signal })).names;
  }

  async overview(options: OverviewOptions = {}): Promise<RunOverview> {
    return jsonReady(await overview(this.#run, this.#calls.bounded(options, CALL_RULES.overview)));
  }

  async log(options: LogOptions = {}): Promise<LogEntry[]> {
    return jsonReady(await readLog(this.#run.catalog, this.#calls.bounded(options, CALL_RULES.log)));
  }

  async planRetention(options: RetentionOptions = {}): Promise<RetentionPlan> {
    return jsonReady(await planOnly(this.#run, this.#calls.bounded(options, CALL_RULES.planRetention)));
  }

  async collect(options: CollectOptions = {}): Promise<CollectResult> {
    return jsonReady(await collect(this.#run, this.#calls.bounded(options, CALL_RULES.collect)));
  }

  async setRetention(policy: RetentionPolicy | null, options: WaitOptions = {}): Promise<void> {
    return setRetention(this.#run, policy, this.#calls.bounded(options, CALL_RULES.wait));
  }

  async retention(options: WaitOptions = {}): Promise<RetentionPolicy | null> {
    return jsonReady(await retention(this.#run, this.#calls.bounded(options, CALL_RULES.wait)));
  }

  async pin(checkpoint: CheckpointReference, label: string, options: WaitOptions = {}): Promise<void> {
    return pin(this.#run, { checkpoint, label }, this.#calls.bounded(options, CALL_RULES.wait));
  }

  async unpin(
    checkpoint: CheckpointReference,
    label?: string,
    options: WaitOptions = {},
  ): Promise<readonly string[]> {
    return unpin(this.#run, { checkpoint, label }, this.#calls.bounded(options, CALL_RULES.wait));
  }

  async undelete(checkpoint: CheckpointReference, options: WaitOptions = {}): Promise<void> {
    return undelete(this.#run, checkpoint, this.#calls.bounded(options, CALL_RULES.wait));
  }

  async annotate(checkpoint: CheckpointReference, options: AnnotateOptions = {}): Promise<CheckpointId> {
    return jsonReady(
      await annotate(this.#run, checkpoint, this.#calls.bounded(options, CALL_RULES.annotate)),
    );
  }

  async begun(options: WaitOptions = {}): Promise<readonly BegunVersion[]> {
    return jsonReady(await begun(this.#run, this.#calls.bounded(options, CALL_RULES.wait)));
  }

  async fsck(options: WaitOptions = {}): Promise<FsckResult> {
    return jsonReady(await fsck(this.#run, this.#calls.bounded(options, CALL_RULES.wait)));
  }

  async rebuildCatalog(options: RebuildOptions = {}): Promise<RebuildResult> {
    return jsonReady(await rebuildCatalog(this.#run, this.#calls.bounded(options, CALL_RULES.rebuild)));
  }

  async releaseSkipped(manifestKey: string, options: WaitOptions = {}): Promise<void> {
    text('manifestKey', manifestKey);
    return releaseSkipped(this.#run, manifestKey, this.#calls.bounded(options, CALL_RULES.wait));
  }

  /** The run to copy from. Its signal also fires when either manager is closed. */
  #withSource<T extends WaitOptions>(
    source: RunManager,
    options: T,
    rules: Rules<T>,
  ): { from: RunContext; bounded: T & { signal: AbortSignal } } {
    const other: unknown = source?.admin;
    if (typeof other !== 'object' || other === null || !(#run in other)) {
      throw new CheckpointError(
        'InvalidArgument',
        'the source must be a manager that this copy of Holdfast opened',
      );
    }
    const bounded = this.#calls.bounded(options, rules);
    return { from: other.#run, bounded: { ...bounded, signal: other.#calls.until(bounded.signal) } };
  }
}
