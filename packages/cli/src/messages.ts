/**
 * Messages of a command besides its result: to standard error, between the lines of the progress.
 */
export interface Messages {
  /** Hidden with `--quiet`. */
  note(text: string): void;
  /** Only with `--verbose`. */
  detail(text: string): void;
  /** Always shown. */
  warn(text: string): void;
}

export type MessageLevel = 'quiet' | 'normal' | 'verbose';

export function createMessages(level: MessageLevel, write: (line: string) => void): Messages {
  return {
    note: (text) => {
      if (level !== 'quiet') write(text);
    },
    detail: (text) => {
      if (level === 'verbose') write(text);
    },
    warn: (text) => write(text),
  };
}
