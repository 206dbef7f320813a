/** The parts needed to write and delete records. */

import type { Clock, Logger, Random } from '../../contract/components.ts';
import type { ObjectStore } from '../../contract/object-store.ts';
import { TIME_MS_MAX } from '../../contract/ranges.ts';
import type { Settings } from '../../contract/settings.ts';

export interface RecordIo {
  /** The store; reads and deletes are repeated after temporary errors, creates are not. */
  readonly records: ObjectStore;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

const ID_DIGITS = 32; // 128 bits

/**
 * The clock of this machine, for records; no decision depends on it. A time beyond the range of a
 * record is limited to that range, so a wrong clock stops no save.
 */
export function machineTimeMs({ clock }: Pick<RecordIo, 'clock'>): number {
  return Math.min(TIME_MS_MAX, Math.max(0, Math.round(clock.nowMs())));
}

export function newId({ random }: Pick<RecordIo, 'random'>): string {
  return random.hex(ID_DIGITS);
}
