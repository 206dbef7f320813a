/** The options of a manager, and how they are checked. */

import type { WriterPosition } from '../contract/checkpoint-manager.ts';
import {
  aClock,
  aLogger,
  aMeter,
  aProcess,
  aRandom,
  aStore,
  callback,
  having,
  optional,
  type Rules,
} from '../contract/checks.ts';
import type { Clock, Logger, ProcessName, Random } from '../contract/components.ts';
import type { LocalFiles } from '../contract/files.ts';
import type { Meter } from '../contract/meter.ts';
import type { ObjectStore } from '../contract/object-store.ts';
import type { RetentionPolicy } from '../contract/retention.ts';
import type { Settings } from '../contract/settings.ts';
import type { Throttle } from '../contract/throttle.ts';
import type { TransferMemory } from '../contract/transfer-memory.ts';
import { attempt, dedupe, life, runId, writer } from './call-rules.ts';
import type { BeforeFirstSave } from './run/index.ts';

export interface CheckpointManagerOptions {
  store: ObjectStore;
  /** Needed for paths as sources and destinations. */
  files?: LocalFiles | undefined;
  /**
   * Id of this incarnation of the job: the same in all its processes, never used again. Required
   * with more than one writer. A lone writer without one draws an id of its own. 1 to 256
   * characters, not only spaces; it must not begin with `drawn-`.
   */
  attempt?: string | undefined;
  /**
   * Name of the trainer's process for which this process acts: for programs that are started once
   * per save. All processes of one life count as one writer, and none replaces another. A trainer
   * that has lost its state needs a new name; a name is never used again. 1 to 256 characters, not
   * only spaces, no control characters. Requires `attempt`. Default: this process is a life of its
   * own.
   */
  life?: string | undefined;
  /**
   * Works only with the run of this id, which `join` has returned: for a process that continues
   * what another one began. If the run was removed and begun again since then, or its catalog was
   * rebuilt, calls are `Corrupt` (see `isOfAnotherRun`). If it was only removed, they are
   * `StoreRegressed`, and no run is begun. 1 to 256 characters. Default: the run that is there, or
   * a new one.
   */
  runId?: string | undefined;
  /** Default: writer 0 of 1. */
  writer?: WriterPosition | undefined;
  settings?: Partial<Settings> | undefined;
  /**
   * The retention rules of the run. They are set when this manager creates the run. If the run has
   * other rules, they are set at the next commit or collection. `null`: no rules. Default: the
   * rules that the run has.
   */
  retention?: RetentionPolicy | null | undefined;
  /**
   * May be shared with other managers. Leave the setting `saveBytesPerSecondMax` unset then.
   * Default: a throttle for this manager alone.
   */
  throttle?: Throttle | undefined;
  /**
   * From `createTransferMemory`; may be shared with other managers of this process. It then
   * replaces the settings `bufferBytes` and `workers`. A store that cannot use memory of several
   * threads, or that needs larger parts for streams, gets memory of its own. Close it after the
   * managers. Default: memory for this manager alone.
   */
  memory?: TransferMemory | undefined;
  /** Default for saves that do not set `dedupe`; see `SaveOptions`. Default `auto`. */
  dedupe?: 'auto' | 'off' | undefined;
  /**
   * Called once, before this manager begins a run where there is none. If it throws, the call fails
   * with that error and nothing was written. `records`: the store, with the engine's own retries.
   * Default: no check.
   */
  beforeFirstSave?: BeforeFirstSave | undefined;
  clock?: Clock | undefined;
  random?: Random | undefined;
  logger?: Logger | undefined;
  /** For tracing and metrics, such as that of `@holdfast/opentelemetry`. Default: none. */
  meter?: Meter | undefined;
  process?: ProcessName | undefined;
}

/** Settings and retention rules are checked elsewhere. */
export const OPENING: Rules<CheckpointManagerOptions> = {
  store: aStore,
  files: optional(having('scan', 'openSource', 'openTarget')),
  attempt: optional(attempt),
  life: optional(life),
  runId: optional(runId),
  writer: optional(writer),
  settings: () => undefined,
  retention: () => undefined,
  throttle: optional(having('take', 'charge')),
  memory: optional(having('close')),
  dedupe,
  beforeFirstSave: optional(callback),
  clock: optional(aClock),
  random: optional(aRandom),
  logger: optional(aLogger),
  meter: optional(aMeter),
  process: optional(aProcess),
};
