/** What a command is, and what it is given. */

import type { CheckpointError, Clock, VersionInput } from '@holdfast/core/contract';
import type { Ask } from './confirm.ts';
import type { JsonObject } from './json.ts';
import type { Messages } from './messages.ts';
import type { Option } from './option.ts';
import type { Reporter } from './progress/reporter.ts';
import type { Environment, Sourced } from './sourced.ts';
import type { Style } from './style.ts';

/** The groups in which commands are listed. */
export type CommandGroup = 'Save and restore' | 'Look' | 'Keep tidy' | 'Trust' | 'ElasticDL' | 'Shell';

export interface Command {
  /** A word, or two: a family of commands and the one in it. */
  readonly name: string;
  readonly group: CommandGroup;
  /** One line, no full stop. */
  readonly summary: string;
  /** Further paragraphs for `--help`. */
  readonly description?: string;
  /** The operands as people write them: `DIR|FILE... URI`. */
  readonly operands: string;
  readonly options: readonly Option<unknown>[];
  /** Whole command lines for `--help`; they work when pasted. */
  readonly examples: readonly string[];
  /** With `--quiet` nothing is printed when it has succeeded: its result is that it is done. */
  readonly isSilentWhenQuiet?: boolean;
  /**
   * Its whole work is one decision: if that has taken effect, the command has succeeded, however
   * its call ended.
   */
  readonly isOneDecision?: boolean;
  run(call: Call): Promise<CommandResult>;
}

export interface CommandResult {
  /** What `--json` prints. */
  readonly json: JsonObject;
  /**
   * What people read; no newline at the end. Empty: nothing is printed. What may be long comes as
   * lines, made while they are printed.
   */
  readonly text: string | Iterable<string>;
  /** Default 0. */
  readonly exitCode?: number;
  /**
   * The command did its work, and what it found is an error: printed after the result. Its exit
   * status counts.
   */
  readonly error?: CheckpointError;
}

/** One run of a command. */
export interface Call {
  readonly command: Command;
  readonly operands: readonly string[];
  /** The value given by option or environment. */
  get<T>(option: Option<T>): T | undefined;
  /** The same with its source. */
  sourced<T>(option: Option<T>): Sourced<T> | null;
  readonly env: Environment;
  readonly programVersion: string;
  readonly clock: Clock;
  /** Fires at the first Ctrl-C. */
  readonly signal: AbortSignal;
  /** From now on SIGTERM is no Ctrl-C: `line` is said, and the call may go on for so long. */
  readonly outlastSigterm: (forMs: number, line: string) => void;
  /** Puts a question to the person at the terminal; `null`: there is none. */
  readonly ask: Ask | null;
  /** To standard error, unless quiet. */
  readonly messages: Messages;
  readonly reporter: Reporter;
  /**
   * Part of the result as soon as it is known, to standard output; `text` of the result follows.
   * Dropped with `--quiet` and `--json`.
   */
  readonly print: (text: string) => void;
  /** For the result on standard output. */
  readonly style: Style;
  /** What is known of the call so far; errors are explained with it. */
  readonly subject: Subject;
}

/** Set by the command as it goes. */
export interface Subject {
  uri?: string;
  version?: VersionInput;
  /** Where a restore goes, or what a save reads. */
  path?: string;
  /** The run was entered without an attempt id of the caller's. */
  isLoneWriter?: boolean;
  /** It acts for a trainer whose life has a name. */
  hasLife?: boolean;
  /** From here on a collection may have changed something. */
  isCollecting?: boolean;
  /** The newest checkpoint that could be taken instead. */
  alternative?: bigint;
}
