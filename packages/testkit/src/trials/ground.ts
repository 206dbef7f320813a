import type { Clock } from '@holdfast/core/contract';
import type { PatientClient } from './patient-client.ts';

/** The place of a trial: clients of one store, and a part of it that is empty at first. */
export interface Ground {
  readonly clock: Clock;
  key(name: string): string;
  /** Client `number`, from 0: each represents a separate process. */
  client(number?: number): Promise<PatientClient>;
  /** Random bytes that nothing else uses: they identify what was sent. */
  bytes(count: number): Uint8Array;
}

/** The closest part size that the store accepts. */
export function partSizeNear(wantedBytes: number, { capabilities }: PatientClient): number {
  return Math.min(capabilities.maxPartBytes, Math.max(capabilities.minPartBytes, wantedBytes));
}
