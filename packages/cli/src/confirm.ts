import { createInterface } from 'node:readline';
import { CheckpointError, throwIfAborted } from '@holdfast/core/contract';
import { usageError } from './usage-error.ts';

/** Asks on the terminal; resolves to the answer, empty if there is none. */
export type Ask = (question: string, signal: AbortSignal) => Promise<string>;

/**
 * Reads standard input; writes the question to standard error, since standard output may go to a
 * file.
 */
export const askAtTerminal: Ask = async (question, signal) => {
  // Not `terminal`: Ctrl-C must arrive as a signal, as elsewhere.
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  const onAbort = () => lines.close();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await new Promise<string>((resolve) => {
      lines.once('close', () => resolve(''));
      lines.question(question, resolve);
    });
  } finally {
    signal.removeEventListener('abort', onAbort);
    lines.close();
  }
};

/**
 * Asks on the terminal. Throws `InvalidArgument` if there is none; `otherwise` names the options
 * that answer in advance.
 */
export function requirePerson(
  { ask, command }: { readonly ask: Ask | null; readonly command: { readonly name: string } },
  otherwise: string,
): Ask {
  if (ask !== null) return ask;
  throw usageError(`${command.name} must ask first, and there is no terminal`, [otherwise]);
}

/** Resolves if the answer is yes. Throws `Aborted` for any other answer. */
export async function confirm(ask: Ask, question: string, signal: AbortSignal): Promise<void> {
  throwIfAborted(signal);
  const answer = await ask(`${question} [y/N] `, signal);
  throwIfAborted(signal);
  if (/^y(es)?$/i.test(answer.trim())) return;
  throw new CheckpointError('Aborted', 'the answer was no', { context: { advice: ['nothing was changed'] } });
}
