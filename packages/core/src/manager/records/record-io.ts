/** The parts needed to write and delete records. */

import type { Clock, Logger, Random } from '../../contract/components.ts';
import type { ObjectStore } from '../../contract/object-store.ts';
import type { Settings } from '../../contract/settings.ts';
import { clockTimeMs } from '../../plan/times.ts';

export interface RecordIo {
  /** The store; reads and deletes are repeated after temporary errors, creates are not. */
  readonly records: ObjectStore;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

const ID_DIGITS = 32; // 128 bits

/** The clock of this machine, for records; no decision depends on it. */
export function machineTimeMs({ clock }: Pick<RecordIo, 'clock'>): number {
  return clockTimeMs(clock.nowMs());
}

export function newId({ random }: Pick<RecordIo, 'random'>): string {
  return random.hex(ID_DIGITS);
}
