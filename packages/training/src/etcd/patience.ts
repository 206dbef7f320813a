import { CheckpointError, isCheckpointError } from '@holdfast/core/contract';
import type { EtcdCall, EtcdClient } from './client.ts';

/** Poll interval for one of many workers that all poll. */
const POLL_MS = 25;
const POLL_MS_MAX = 200;
const CALL_TIMEOUT_MS = 5000;
/** No try takes longer, with the pause before it, unless this process is frozen. */
const TRY_MS_MAX = CALL_TIMEOUT_MS + POLL_MS_MAX + 1000;

/**
 * Repeats `body` until it resolves to a value other than `null`. Tolerates an etcd that is
 * temporarily away. `TimedOut` after `timeoutMs`, with the last failure as its cause. Time in which
 * this process is frozen does not count.
 */
export async function untilAnswered<T>(
  client: EtcdClient,
  { timeoutMs, what }: { timeoutMs: number; what: string },
  body: (call: EtcdCall) => Promise<T | null>,
): Promise<T> {
  const { clock } = client;
  let checkedMs = clock.monotonicMs();
  let endMs = checkedMs + timeoutMs;
  let failure: CheckpointError | null = null;
  for (let pollMs = POLL_MS; ; pollMs = Math.min(pollMs * 1.5, POLL_MS_MAX)) {
    try {
      const nowMs = clock.monotonicMs();
      const answer = await body({ untilMs: Math.min(endMs, nowMs + CALL_TIMEOUT_MS) });
      if (answer !== null) return answer;
      failure = null;
    } catch (error) {
      if (!isPassing(error)) throw error;
      failure = error;
    }
    const nowMs = clock.monotonicMs();
    const tookMs = nowMs - checkedMs;
    if (tookMs > TRY_MS_MAX) endMs += tookMs;
    checkedMs = nowMs;
    const leftMs = endMs - nowMs;
    if (leftMs <= 0) {
      const why = failure === null ? '' : `: ${failure.message}`;
      throw new CheckpointError('TimedOut', `${what} within ${timeoutMs} ms${why}`, { cause: failure });
    }
    await clock.sleep(Math.min(pollMs, leftMs));
  }
}

function isPassing(error: unknown): error is CheckpointError {
  return isCheckpointError(error, 'Unavailable') || isCheckpointError(error, 'Throttled');
}
