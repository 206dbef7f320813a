/** Which throttle a manager sends by. */

import type { Clock } from '../contract/components.ts';
import { CheckpointError } from '../contract/errors.ts';
import type { Settings } from '../contract/settings.ts';
import type { Throttle } from '../contract/throttle.ts';
import { createThrottle } from '../transfer/index.ts';

/** The one that is given, else one of its own. `InvalidConfig`: one is given, and the setting asks for another limit. */
export function throttleOf(given: Throttle | undefined, settings: Settings, clock: Clock): Throttle {
  const { saveBytesPerSecondMax } = settings;
  if (given === undefined) return createThrottle({ bytesPerSecondMax: saveBytesPerSecondMax || null, clock });
  if (saveBytesPerSecondMax === 0) return given;
  const message = `setting saveBytesPerSecondMax is ${saveBytesPerSecondMax}, and a throttle is given too, which has a limit of its own; give one of them`;
  throw new CheckpointError('InvalidConfig', message);
}
