import type { Logger } from '@holdfast/core/contract';
import type { Call } from './command.ts';
import { printable } from './format.ts';
import type { Messages } from './messages.ts';
import { repeatNotes } from './repeat-notes.ts';

/**
 * The log of the engine. As text, people learn that a request is repeated, and the rest only with
 * `--verbose`. With `--log json` every line of it is in the log.
 */
export function engineLogger({ clock, messages }: Pick<Call, 'clock' | 'messages'>): Logger {
  if (messages.isJson) return { log: messages.log };
  const tellRepeat = repeatNotes(clock, messages);
  return {
    log: (level, message, details) => {
      if (level === 'info')
        tellRepeat(message); // The engine's message about a repeated request.
      else messages.detail(lineOf(level, message, details));
    },
  };
}

/** Warns that a version is suspect. With `--log json` the log of the engine has said it. */
export function warnOfSuspect(reason: string, messages: Messages): void {
  if (!messages.isJson) messages.warn(`suspect   ${printable(reason)}`);
}

function lineOf(level: string, message: string, details: Readonly<Record<string, unknown>> = {}): string {
  const shown = Object.entries(details).map(([name, item]) => ` ${name}=${String(item)}`);
  return `${level}: ${message}${shown.join('')}`;
}
