/** What a manager is opened with, and the rules that it is held against. */

import type { WriterPosition } from '../contract/checkpoint-manager.ts';
import {
  aClock,
  aLogger,
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
import type { ObjectStore } from '../contract/object-store.ts';
import type { RetentionPolicy } from '../contract/retention.ts';
import type { Settings } from '../contract/settings.ts';
import type { Throttle } from '../contract/throttle.ts';
import { attempt, dedupe, life, writer } from './call-rules.ts';
import type { BeforeFirstSave } from './engine.ts';

export interface CheckpointManagerOptions {
  store: ObjectStore;
  /** For paths as sources and destinations. */
  files?: LocalFiles | undefined;
  /**
   * Id of this incarnation of the job: the same in all its processes, never used again. Needed with more than one writer; a lone writer
   * without one draws its own. 1 to 256 characters, not only spaces, that do not begin with `drawn-`.
   */
  attempt?: string | undefined;
  /**
   * Name of the trainer's process for which this one acts: for programs that are started for each save. All processes of one life are one
   * writer, and none takes the place of another. A trainer that has lost its state needs a new one: it is never used again. It takes 1 to
   * 256 characters, not only spaces, none of them a control character, and needs `attempt`. Default: this process is a life of its own.
   */
  life?: string | undefined;
  /** Default: writer 0 of 1. */
  writer?: WriterPosition | undefined;
  settings?: Partial<Settings> | undefined;
  /**
   * The rules of the run: set when this manager creates the run or, where the run has others, when it next commits or collects; `null`: none.
   * Default: those that the run has.
   */
  retention?: RetentionPolicy | null | undefined;
  /** Shared with whoever else is given it; then setting `saveBytesPerSecondMax` is to be left alone. Default: one of its own. */
  throttle?: Throttle | undefined;
  /** Of saves that do not say; see `SaveOptions`. Default `auto`. */
  dedupe?: 'auto' | 'off' | undefined;
  /**
   * Asked once, before a run is begun where there is none; what it throws ends the call, and nothing was written. `records`: the store, whose
   * requests are repeated as the engine repeats its own. Default: nothing is asked.
   */
  beforeFirstSave?: BeforeFirstSave | undefined;
  clock?: Clock | undefined;
  random?: Random | undefined;
  logger?: Logger | undefined;
  process?: ProcessName | undefined;
}

/** Settings and rules of retention have checks of their own. */
export const OPENING: Rules<CheckpointManagerOptions> = {
  store: aStore,
  files: optional(having('scan', 'openSource', 'openTarget')),
  attempt: optional(attempt),
  life: optional(life),
  writer: optional(writer),
  settings: () => undefined,
  retention: () => undefined,
  throttle: optional(having('take', 'charge')),
  dedupe,
  beforeFirstSave: optional(callback),
  clock: optional(aClock),
  random: optional(aRandom),
  logger: optional(aLogger),
  process: optional(aProcess),
};
