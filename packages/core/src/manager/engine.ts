/** What the parts of the manager share. */

import type { Clock, Logger, ProcessName, Random } from '../contract/components.ts';
import type { LocalFiles } from '../contract/files.ts';
import type { ObjectStore } from '../contract/object-store.ts';
import { TIME_MS_MAX } from '../contract/ranges.ts';
import type { Settings } from '../contract/settings.ts';
import type { RecordLimits } from '../plan/file-lists.ts';
import type { Transfer } from '../transfer/index.ts';
import type { BackgroundRetention } from './background-retention.ts';
import type { OpenFile } from './open-file.ts';
import type { RunRules } from './run-rules.ts';
import type { UploadRecords } from './upload-records.ts';

export type BeforeFirstSave = (records: Pick<ObjectStore, 'list'>, signal: AbortSignal) => Promise<void>;

export interface Engine {
  readonly store: ObjectStore;
  /** The same store; reads and deletes are repeated after temporary errors, creates are not. */
  readonly records: ObjectStore;
  readonly transfer: Transfer;
  readonly uploads: UploadRecords;
  readonly rules: RunRules;
  readonly retention: BackgroundRetention;
  /** Files that callers read. They are closed before the manager. */
  readonly openFiles: Set<OpenFile>;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly process: ProcessName;
  readonly files: LocalFiles | undefined;
  /** Default for saves that do not set it. */
  readonly dedupe: 'auto' | 'off';
  /** See `CheckpointManagerOptions`. */
  readonly beforeFirstSave: BeforeFirstSave | undefined;
  readonly recordLimits: RecordLimits;
}

/** The parts needed to write and delete records. */
export type RecordIo = Pick<Engine, 'records' | 'settings' | 'clock' | 'random' | 'logger'>;

const ID_DIGITS = 32; // 128 bits

/**
 * The clock of this machine, for records; no decision depends on it. A time beyond the range of a
 * record is limited to that range, so a wrong clock stops no save.
 */
export function machineTimeMs({ clock }: Pick<Engine, 'clock'>): number {
  return Math.min(TIME_MS_MAX, Math.max(0, Math.round(clock.nowMs())));
}

export function newId(engine: Pick<Engine, 'random'>): string {
  return engine.random.hex(ID_DIGITS);
}
