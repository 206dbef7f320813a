/** What every part of the engine needs to work on one run. */

import type { ProcessName } from '../../contract/components.ts';
import type { LocalFiles } from '../../contract/files.ts';
import type { Meter } from '../../contract/meter.ts';
import type { ObjectStore } from '../../contract/object-store.ts';
import type { RecordLimits } from '../../plan/file-lists.ts';
import type { Transfers } from '../../transfer/index.ts';
import type { RecordIo } from './record-io.ts';
import type { UploadRecords } from './upload-records.ts';

export interface RunParts extends RecordIo {
  /** The store, without retries. */
  readonly store: ObjectStore;
  readonly transfers: Transfers;
  readonly uploads: UploadRecords;
  readonly process: ProcessName;
  readonly files: LocalFiles | undefined;
  /** Default for saves that do not set it. */
  readonly dedupe: 'auto' | 'off';
  readonly recordLimits: RecordLimits;
  readonly meter: Meter;
}
