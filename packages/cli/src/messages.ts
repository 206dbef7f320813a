/**
 * Messages of a command besides its result: to standard error, between the lines of the progress.
 */

import type { Clock, Logger } from '@holdfast/core/contract';
import { type JsonObject, toJson } from './json.ts';

/** Facts of a message, for `--log json`. */
export type Fields = Readonly<Record<string, unknown>>;

export interface Messages {
  /** `--log json`: every message is a line of JSON. */
  readonly isJson: boolean;
  /** Hidden with `--quiet`. */
  note(text: string, fields?: Fields): void;
  /** Only with `--verbose`. */
  detail(text: string): void;
  /** Always shown. */
  warn(text: string, fields?: Fields): void;
  /**
   * A line of JSON, whatever `--log` says. `debug` is shown as a detail, `info` as a note, `warn`
   * always.
   */
  readonly log: Logger['log'];
}

export type MessageLevel = 'quiet' | 'normal' | 'verbose';
type LogLevel = Parameters<Logger['log']>[0];

/** Begins most messages for people. A log names its program itself. */
const PREFIX = /^holdfast: /;

/** `write` gets whole messages, without a final newline. */
export function createMessages({
  level,
  isJson,
  clock,
  write,
}: {
  readonly level: MessageLevel;
  readonly isJson: boolean;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly write: (line: string) => void;
}): Messages {
  const isShown = { debug: level === 'verbose', info: level !== 'quiet', warn: true };
  const log: Logger['log'] = (of, message, fields) => {
    if (isShown[of]) write(logLine(clock, of, message, fields));
  };
  const say = (of: LogLevel, text: string, fields?: Fields) => {
    if (isJson) log(of, text.replace(PREFIX, ''), fields);
    else if (isShown[of]) write(text);
  };
  return {
    isJson,
    note: (text, fields) => say('info', text, fields),
    detail: (text) => say('debug', text),
    warn: (text, fields) => say('warn', text, fields),
    log,
  };
}

/** One line of JSON, so that a log collector needs no rule. */
export function logLine(
  clock: Pick<Clock, 'nowMs'>,
  level: LogLevel | 'error',
  message: string,
  fields: Fields = {},
): string {
  const time = new Date(clock.nowMs()).toISOString();
  return JSON.stringify({ time, level, message, ...(toJson(fields) as JsonObject) });
}
