import { CheckpointError } from '@holdfast/core/contract';

/** setTimeout takes no more. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

/** `InvalidArgument` if it is no whole number from `min` to `max`, both included. */
export function checkRange(name: string, value: number, min: number, max: number): void {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return;
  throw new CheckpointError(
    'InvalidArgument',
    `${name} ${value}: it is to be a whole number from ${min} to ${max}`,
  );
}
