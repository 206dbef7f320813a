import { createInterface } from 'node:readline';
import { CheckpointError, throwIfAborted } from '@holdfast/core/contract';
import type { Call } from './command.ts';
import { usageError } from './usage-error.ts';

/**
 * Puts a question to the person at the terminal; resolves to the answer, empty where there is none.
 */
export type Ask = (question: string, signal: AbortSignal) => Promise<string>;

/**
 * From standard input; the question goes to standard error, since standard output may be on its way
 * into a file.
 */
export const askAtTerminal: Ask = async (question, signal) => {
  // Not `terminal`: Ctrl-C is to arrive as a signal, as it does everywhere else.
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
 * Whoever can be asked. `InvalidArgument`: nobody; `otherwise` says which options say it
 * beforehand.
 */
export function requirePerson({ ask, command }: Call, otherwise: string): Ask {
  if (ask !== null) return ask;
  throw usageError(`${command.name} asks first, and there is no terminal to ask at`, [otherwise]);
}

/** Goes on once the person has said yes. `Aborted`: the answer was another. */
export async function confirm(ask: Ask, question: string, signal: AbortSignal): Promise<void> {
  throwIfAborted(signal);
  const answer = await ask(`${question} [y/N] `, signal);
  throwIfAborted(signal);
  if (/^y(es)?$/i.test(answer.trim())) return;
  throw new CheckpointError('Aborted', 'the answer was no', { context: { advice: ['nothing was changed'] } });
}
