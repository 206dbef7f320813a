/** Requests without payload: watched for silence, repeated after temporary errors. */

import type { CallOptions } from '../contract/index.ts';
import { retrying } from './retry.ts';
import { retryPolicy, type Shared, stallTimeoutMs } from './shared.ts';
import { withStallTimeout } from './stall.ts';

/** One request, watched for silence and repeated after temporary errors. */
export function send<T>(
  shared: Shared,
  what: string,
  options: CallOptions | undefined,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const request = (repeats: number) => watched(shared, what, options, call, repeats);
  return retrying(request, retryPolicy(shared, what, { signal: options?.signal }));
}

export function watched<T>(
  { deadlines, settings }: Shared,
  what: string,
  options: CallOptions | undefined,
  call: (signal: AbortSignal) => Promise<T>,
  repeats: number,
): Promise<T> {
  return withStallTimeout(call, {
    what,
    stallTimeoutMs: stallTimeoutMs(settings, repeats),
    graceMs: settings.stallTimeoutMs,
    deadlines,
    signal: options?.signal,
  });
}
