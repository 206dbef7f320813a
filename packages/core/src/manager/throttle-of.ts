/** Chooses the throttle of a manager. */

import type { Clock } from '../contract/components.ts';
import { CheckpointError } from '../contract/errors.ts';
import type { Settings } from '../contract/settings.ts';
import type { Throttle } from '../contract/throttle.ts';
import { createThrottle } from '../transfer/index.ts';

/**
 * The given throttle, else a new one for this manager alone. `InvalidConfig`: a throttle is given,
 * and the setting asks for a limit as well.
 */
export function throttleOf(given: Throttle | undefined, settings: Settings, clock: Clock): Throttle {
  const { saveBytesPerSecondMax } = settings;
  if (given === undefined) return createThrottle({ bytesPerSecondMax: saveBytesPerSecondMax || null, clock });
  if (saveBytesPerSecondMax === 0) return given;
  const message = `setting saveBytesPerSecondMax is ${saveBytesPerSecondMax}, and a throttle is given too, which has its own limit; pass only one of them`;
  throw new CheckpointError('InvalidConfig', message);
}
