/** Events that a call reports to its caller. */

import type { Logger } from '../contract/components.ts';
import { jsonReady } from '../contract/json.ts';

/**
 * A callback that gets events which can be written as JSON. If it throws, the error is logged once
 * per call and then dropped: a call that has committed must not fail because its progress could not
 * be shown.
 */
export function toldEvents<T>(
  tell: ((event: T) => void) | undefined,
  logger: Logger,
): ((event: T) => void) | undefined {
  if (tell === undefined) return undefined;
  let hasFailed = false;
  return (event) => {
    try {
      tell(jsonReady(event));
    } catch (error) {
      if (!hasFailed)
        logger.log('warn', 'onProgress threw an error; the call continues', { error: String(error) });
      hasFailed = true;
    }
  };
}
