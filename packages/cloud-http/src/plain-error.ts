/** Makes errors of libraries safe to attach to ours. */

import { isCheckpointError } from '@holdfast/core/contract';
import { DirectHttpError } from '@holdfast/direct-http';
import { ProxyRefusal } from './proxy.ts';
import { conceal } from './secret.ts';

const DEPTH_MAX = 8;

/**
 * Returns the error with only its name, message, code and stack, and likewise its causes. Libraries
 * attach requests, answers and settings to their errors, including credentials. Our own errors stay
 * unchanged. `secrets`: removed from the texts.
 */
export function told(error: unknown, secrets: readonly string[] = [], depth = 0): unknown {
  if (isCheckpointError(error) || error instanceof ProxyRefusal) return error;
  if (!(error instanceof Error) || depth > DEPTH_MAX) return undefined;
  const { name, message, stack } = error;
  const { code } = error as { code?: unknown };
  const inner = (each: unknown) => told(each, secrets, depth + 1);
  const cause = error.cause === undefined ? undefined : { cause: inner(error.cause) };
  const words = conceal(message, secrets);
  const copy = copyOf(error, words, cause, inner);
  Object.defineProperty(copy, 'stack', { value: conceal(stack ?? '', secrets), configurable: true });
  if (copy.name !== name) Object.defineProperty(copy, 'name', { value: name, configurable: true });
  if (typeof code === 'string' && !('code' in copy)) Object.assign(copy, { code });
  return copy;
}

function copyOf(
  error: Error,
  message: string,
  cause: { readonly cause: unknown } | undefined,
  inner: (each: unknown) => unknown,
): Error {
  if (error instanceof DirectHttpError)
    return new DirectHttpError(error.code, message, {
      phase: error.phase,
      bytes: error.bytes,
      isStale: error.isStale,
      ...cause,
    });
  if (error instanceof AggregateError) return new AggregateError(error.errors.map(inner), message, cause);
  return new Error(message, cause);
}
