/** Definition of a command, and what it receives. */

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
  /** One word, or two: a family of commands and the command in it. */
  readonly name: string;
  readonly group: CommandGroup;
  /** One line, no full stop. */
  readonly summary: string;
  /** Further paragraphs for `--help`. */
  readonly description?: string;
  /** The operands as people write them: `DIR|FILE... URI`. */
  readonly operands: string;
  readonly options: readonly Option<unknown>[];
  /** Complete command lines for `--help`. They work when pasted. */
  readonly examples: readonly string[];
  /** With `--quiet` nothing is printed on success, because the result is only that it is done. */
  readonly isSilentWhenQuiet?: boolean;
  /** It says itself, in its log, that a signal ends it. */
  readonly endsQuietly?: boolean;
  /**
   * The command makes a single decision. If the decision has taken effect, the command has
   * succeeded, however its call ended. If it can make several, `leftCount` in the context of the
   * error says how many were to follow.
   */
  readonly isOneDecision?: boolean;
  run(call: Call): Promise<CommandResult>;
}

export interface CommandResult {
  /** What `--json` prints. */
  readonly json: JsonObject;
  /**
   * Text for people, without a final newline. Empty: nothing is printed. Long text comes as lines
   * that are generated while they are printed.
   */
  readonly text: string | Iterable<string>;
  /** Default 0. */
  readonly exitCode?: number;
  /**
   * The command did its work and found an error. It is printed after the result, and sets the exit
   * status.
   */
  readonly error?: CheckpointError;
}

/** One call of a command. */
export interface Call {
  readonly command: Command;
  readonly operands: readonly string[];
  /** The value from the option or the environment. */
  get<T>(option: Option<T>): T | undefined;
  /** The value with its source. */
  sourced<T>(option: Option<T>): Sourced<T> | null;
  readonly env: Environment;
  readonly programVersion: string;
  readonly clock: Clock;
  /** Fires at the first Ctrl-C. */
  readonly signal: AbortSignal;
  /**
   * From now on SIGTERM prints `line` instead of interrupting, and the call may continue for this
   * time.
   */
  readonly outlastSigterm: (forMs: number, line: string) => void;
  /** Asks on the terminal; `null` without a terminal. */
  readonly ask: Ask | null;
  /** Writes to standard error, unless quiet. */
  readonly messages: Messages;
  readonly reporter: Reporter;
  /**
   * Prints a part of the result to standard output as soon as it is known. The `text` of the result
   * follows. Ignored with `--quiet` and `--json`.
   */
  readonly print: (text: string) => void;
  /** For the result on standard output. */
  readonly style: Style;
  /** Information about the call so far, to explain errors. */
  readonly subject: Subject;
}

/** Filled in by the command. */
export interface Subject {
  uri?: string;
  version?: VersionInput;
  /** Target of a restore, or source of a save. */
  path?: string;
  /** The run was entered without an attempt id from the caller. */
  isLoneWriter?: boolean;
  /** The command acts for a trainer with a named life. */
  hasLife?: boolean;
  /** From here on a collection may have changed something. */
  isCollecting?: boolean;
  /** The newest checkpoint that could be used instead. */
  alternative?: bigint;
}
