/** What a call tells its caller while it goes on. */

import type { Logger } from '../contract/components.ts';
import { jsonReady } from '../contract/json.ts';

/**
 * A callback whose events can be written as JSON. What it throws is logged, once a call, and goes no further: a call that has committed must
 * not be told to have failed because somebody could not draw its progress.
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
        logger.log('warn', 'onProgress threw an error; the call goes on', { error: String(error) });
      hasFailed = true;
    }
  };
}
