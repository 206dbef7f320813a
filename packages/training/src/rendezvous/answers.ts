/** The server's answer to a call of a worker. */

import { CheckpointError, ERROR_CODES, type ErrorCode } from '@holdfast/core/contract';
import type { Frame } from './frames.ts';

export type Answer =
  | { readonly outcome: 'done' }
  | { readonly outcome: 'world'; readonly rank: number; readonly size: number }
  /** Whether the workers must meet again. */
  | { readonly outcome: 'vote'; readonly isDue: boolean }
  /** The bytes of all workers, by rank. */
  | { readonly outcome: 'gathered'; readonly parts: readonly Uint8Array[] }
  | { readonly outcome: 'stop' }
  | { readonly outcome: 'recoverable'; readonly message: string }
  | { readonly outcome: 'refused'; readonly code: ErrorCode; readonly message: string };

/**
 * A call of a worker. `worker` is the number of its connection; earlier connections have lower
 * numbers.
 */
export interface Call {
  readonly worker: number;
  /** The worker's own number for the call. */
  readonly id: number;
}

export type Tell = (call: Call, answer: Answer) => void;

/** Header and body of the frame that carries the answer. */
export function frameOf(answer: Answer): { header: Record<string, unknown>; body: readonly Uint8Array[] } {
  if (answer.outcome !== 'gathered') return { header: { ...answer }, body: [] };
  const sizes = answer.parts.map((part) => part.length);
  return { header: { outcome: answer.outcome, sizes }, body: answer.parts };
}

/**
 * Parses an answer. `InvalidArgument`: the sender is not a rendezvous server. Gathered parts share
 * the frame's memory.
 */
export function answerOf({ header, body }: Frame): Answer {
  const { outcome, rank, size, isDue, sizes, code, message } = header;
  if (outcome === 'done' || outcome === 'stop') return { outcome };
  if (outcome === 'world' && isCount(rank) && isCount(size)) return { outcome, rank, size };
  if (outcome === 'vote' && typeof isDue === 'boolean') return { outcome, isDue };
  if (outcome === 'recoverable' && typeof message === 'string') return { outcome, message };
  if (outcome === 'refused' && isCode(code) && typeof message === 'string') return { outcome, code, message };
  if (outcome === 'gathered' && Array.isArray(sizes) && sizes.every(isCount)) {
    let end = 0;
    const parts = sizes.map((sizeBytes) => {
      end += sizeBytes;
      return body.subarray(end - sizeBytes, end);
    });
    if (end === body.length) return { outcome, parts };
  }
  throw new CheckpointError(
    'InvalidArgument',
    `this is not an answer of a rendezvous server: ${JSON.stringify(header)}`,
  );
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function isCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(ERROR_CODES, value);
}
