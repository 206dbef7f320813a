import type { CheckpointError, ErrorCode } from '@holdfast/core/contract';
import { printable } from './format.ts';
import type { Style } from './style.ts';

/**
 * Formats the error for people: what, why and what to do, then code and exit status. `stack`:
 * includes stacks, also those of the causes.
 */
export function renderError(
  error: CheckpointError,
  advice: readonly string[],
  options: { style: Style; stack: boolean },
): string {
  const because = becauseOf(error);
  const lines = [
    `${options.style('red', 'holdfast:')} ${printable(headlineOf(error, advice))}`,
    ...(because === null ? [] : [`  because: ${because}`]),
    ...advice.map((line) => `  ${line}`),
    options.style('dim', `  (${error.code}, exit ${error.exitCode})`),
  ];
  return [...lines, ...(options.stack ? stackLines(error) : [])].join('\n');
}

// Removes from the end of the message what the advice says in its own line.
function headlineOf(error: CheckpointError, advice: readonly string[]): string {
  const repeated = advice.find((line) => error.message.endsWith(`; ${line}`));
  return repeated === undefined ? error.message : error.message.slice(0, -`; ${repeated}`.length);
}

/**
 * Codes whose cause is external, so that the cause's message helps. An invalid argument is fully
 * explained by its own message.
 */
const EXPLAINED_BY_CAUSE: ReadonlySet<ErrorCode> = new Set([
  'Denied',
  'OutcomeUnknown',
  'ReadOnly',
  'StorageFull',
  'Throttled',
  'TimedOut',
  'Unavailable',
  'Unexpected',
]);

/** What the cause adds; `null`: nothing. A cause that the message repeats is not shown twice. */
export function becauseOf(error: CheckpointError): string | null {
  const { cause } = error;
  if (!(cause instanceof Error) || !EXPLAINED_BY_CAUSE.has(error.code)) return null;
  const text = printable(cause.message.split('\n')[0] ?? '');
  return text === '' || error.message.includes(cause.message) ? null : text;
}

const CAUSES_MAX = 8;

function stackLines(error: Error): string[] {
  const lines: string[] = [];
  let at: unknown = error;
  for (let depth = 0; at instanceof Error && depth < CAUSES_MAX; depth += 1) {
    lines.push(
      ...`${depth === 0 ? '' : 'caused by '}${at.stack ?? at.message}`.split('\n').map((line) => `  ${line}`),
    );
    at = at.cause;
  }
  return lines;
}
