/** One call of the command line, from its arguments to its exit status. */

import {
  type CheckpointError,
  type Clock,
  isCheckpointError,
  toCheckpointError,
} from '@holdfast/core/contract';
import { adviceFor } from './advice.ts';
import { askedOf } from './ask-once-more.ts';
import type { Call, Command, CommandResult, Subject } from './command.ts';
import { json, logFormat, noColor, progress, quiet, storeModule, verbose } from './common-options.ts';
import type { Ask } from './confirm.ts';
import { assertArgumentsDecoded, assertWorkingDirectoryDecoded } from './decoded.ts';
import { canRedraw, optionFromEnvironment, wantsColor } from './env.ts';
import type { Interrupt } from './interrupt.ts';
import { type JsonObject, jsonError, jsonVersion } from './json.ts';
import { createMessages, logLine, type Messages } from './messages.ts';
import type { Option } from './option.ts';
import { type OptionValues, parseCommandLine } from './parse-command-line.ts';
import { printJson, printLines } from './print-result.ts';
import {
  createReporter,
  type ProgressMode,
  type ProgressStream,
  type Reporter,
} from './progress/reporter.ts';
import { becauseOf, renderError } from './report-error.ts';
import type { Environment, Sourced } from './sourced.ts';
import { colorStyle, plainStyle, type Style } from './style.ts';
import { unknownVariables } from './unknown-variables.ts';
import { usageError } from './usage-error.ts';
import { workingDirectoryGone } from './working-directory.ts';

export interface OutputStream extends ProgressStream {
  readonly isTTY?: boolean | undefined;
}

/**
 * What the program uses of its process and machine: variables, streams, clock, terminal, signals.
 */
export interface Surroundings {
  readonly env: Environment;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly clock: Clock;
  readonly programVersion: string;
  /** `null`: there is no terminal. */
  readonly ask: Ask | null;
  readonly listenForInterrupt: (onFirst: () => void) => Interrupt;
}

/** Runs one command line and resolves to the exit status. Never rejects. */
export async function runCli(argv: readonly string[], surroundings: Surroundings): Promise<number> {
  const { env, stdout } = surroundings;
  try {
    assertArgumentsDecoded(argv);
    const parsed = parseCommandLine(argv, env, surroundings.programVersion);
    if (parsed.kind === 'text') {
      if (mannersOfRaw(argv, surroundings).isJson) printJson(stdout, { text: parsed.text });
      else stdout.write(parsed.text);
      return 0;
    }
    assertWorkingDirectoryDecoded();
    return await runCommand(parsed.command, parsed.operands, parsed.values, surroundings);
  } catch (error) {
    const manners = mannersOfRaw(argv, surroundings);
    const reporter = createReporter({ mode: 'none', stream: surroundings.stderr, clock: surroundings.clock });
    return report(error, { command: '', subject: {}, reporter, manners, surroundings });
  }
}

/** How to print. */
interface Manners {
  readonly isJson: boolean;
  readonly isLogJson: boolean;
  readonly isQuiet: boolean;
  readonly isVerbose: boolean;
  readonly progress: ProgressMode;
  readonly outStyle: Style;
  readonly errorStyle: Style;
}

async function runCommand(
  command: Command,
  operands: readonly string[],
  values: OptionValues,
  surroundings: Surroundings,
): Promise<number> {
  const { clock } = surroundings;
  const manners = mannersOf(values, surroundings);
  const { messages, reporter } = errorOutput(manners, surroundings);
  const interrupt = surroundings.listenForInterrupt(() => {
    if (command.endsQuietly) return;
    messages.note('holdfast: ending cleanly; press Ctrl-C again to end at once');
  });
  const call: Call = {
    command,
    operands,
    get: <T>(option: Option<T>) => values.get(option.name)?.value as T | undefined,
    sourced: <T>(option: Option<T>) => (values.get(option.name) as Sourced<T> | undefined) ?? null,
    env: surroundings.env,
    programVersion: surroundings.programVersion,
    clock,
    signal: interrupt.signal,
    outlastSigterm: (forMs, line) => interrupt.outlastSigterm(forMs, () => messages.note(line)),
    ask: surroundings.ask,
    messages,
    reporter,
    print: (text) => {
      if (!manners.isQuiet && !manners.isJson) reporter.aside(() => surroundings.stdout.write(`${text}\n`));
    },
    style: manners.outStyle,
    subject: {},
  };
  sayWhatTheEnvironmentGave(values, call);
  for (const line of unknownVariables(surroundings.env)) messages.warn(`holdfast: ${line}`);
  try {
    const modules = call.get(storeModule) ?? [];
    if (modules.length > 0) await (await import('./store-modules.ts')).addStores(modules);
    const running = command.run(call);
    interrupt.deliverEarly();
    const result = await running;
    reporter.end();
    return conclude(
      result,
      { command: command.name, subject: call.subject, reporter, manners, surroundings },
      command,
    );
  } catch (error) {
    const ending = { command: command.name, subject: call.subject, reporter, manners, surroundings };
    const decided = decidedAfterAll(error, call);
    return decided ? conclude(decided, ending, command) : report(error, ending);
  } finally {
    reporter.end();
    interrupt.dispose();
  }
}

/** What goes to standard error. With `--log json`, lines of progress are messages of the log. */
function errorOutput(
  { isLogJson, isVerbose, isQuiet, progress: mode }: Manners,
  { stderr, clock }: Surroundings,
): { readonly messages: Messages; readonly reporter: Reporter } {
  const level = isVerbose ? 'verbose' : isQuiet ? 'quiet' : 'normal';
  const write = (line: string) => (isLogJson ? stderr.write(`${line}\n`) : reporter.write(line));
  const messages = createMessages({ level, isJson: isLogJson, clock, write });
  const toLog = { write: (text: string) => messages.note(text.trimEnd()) };
  const stream = isLogJson && mode !== 'json' ? toLog : stderr;
  const reporter = createReporter({ mode, stream, clock });
  return { messages, reporter };
}

function sayWhatTheEnvironmentGave(values: OptionValues, call: Call): void {
  for (const [name, { source }] of values) {
    if (!source.startsWith('--')) call.messages.detail(`--${name} from ${source}`);
  }
}

/**
 * The result of a command that makes one decision, if its call failed but the store, asked once
 * more, said that the decision has taken effect. `null`: report the error.
 */
function decidedAfterAll(thrown: unknown, { command, subject, style, reporter }: Call): CommandResult | null {
  const asked = isCheckpointError(thrown) ? askedOf(thrown) : null;
  if (asked?.outcome !== 'committed' || command.isOneDecision !== true) return null;
  // Other processes may have kept the record from deciding.
  if (asked.of === 'record') return null;
  const { version, leftCount = 0 } = (thrown as CheckpointError).context;
  if (leftCount !== 0) return null;
  reporter.end();
  const isCommit = asked.of === 'commit';
  const what = isCommit
    ? [style('green', 'committed'), `version ${version}`]
    : [style('green', 'done'), asked.detail];
  return {
    text: `${what.join('  ')}   ${asked.ended}; asked once more`,
    json: {
      uri: subject.uri ?? null,
      outcome: asked.outcome,
      version: version === undefined ? null : jsonVersion(version),
      ...(isCommit && { isCommitted: true }),
      detail: asked.detail,
    },
  };
}

interface Ending {
  readonly command: string;
  readonly subject: Subject;
  readonly reporter: Reporter;
  readonly manners: Manners;
  readonly surroundings: Surroundings;
}

function conclude(result: CommandResult, ending: Ending, command: Command): number {
  const { manners, surroundings } = ending;
  if (!manners.isJson) {
    const isWanted =
      result.text !== '' && !(manners.isQuiet && command.isSilentWhenQuiet === true && !result.error);
    if (isWanted)
      printLines(surroundings.stdout, typeof result.text === 'string' ? [result.text] : result.text);
  }
  if (result.error) return report(result.error, ending, result.json);
  if (manners.isJson) printJson(surroundings.stdout, result.json);
  return result.exitCode ?? 0;
}

/**
 * Prints the error for people on standard error. With `--json`, also prints it for programs on
 * standard output, together with what the command found before.
 */
function report(thrown: unknown, ending: Ending, found: JsonObject = {}): number {
  const { command, subject, reporter, manners, surroundings } = ending;
  const error = workingDirectoryGone(thrown) ?? toCheckpointError(thrown);
  const advice = adviceFor(error, { command, subject, progress: reporter.state });
  reporter.end();
  const asJson = jsonError(error, advice);
  surroundings.stderr.write(`${errorText(error, { advice, asJson }, ending)}\n`);
  if (manners.isJson) printJson(surroundings.stdout, { ...found, error: asJson });
  return error.exitCode;
}

function errorText(
  error: CheckpointError,
  { advice, asJson }: { readonly advice: readonly string[]; readonly asJson: JsonObject },
  { manners, surroundings: { clock } }: Ending,
): string {
  const { isVerbose, isLogJson } = manners;
  if (isLogJson) {
    const because = becauseOf(error) ?? undefined;
    const stack = isVerbose ? error.stack : undefined;
    return logLine(clock, 'error', error.message, { ...asJson, because, stack });
  }
  if (manners.progress === 'json')
    return JSON.stringify({ at: new Date(clock.nowMs()).toISOString(), type: 'error', error: asJson });
  return renderError(error, advice, { style: manners.errorStyle, stack: isVerbose });
}

/** `InvalidArgument`: two of the options exclude each other. */
function mannersOf(values: OptionValues, { env, stdout, stderr }: Surroundings): Manners {
  const given = <T>(option: Option<T>) => values.get(option.name)?.value as T | undefined;
  const isQuiet = given(quiet) ?? false;
  const style = (stream: OutputStream) =>
    given(noColor) !== true && wantsColor(env, stream.isTTY === true) ? colorStyle : plainStyle;
  const how = given(progress) ?? 'auto';
  const isLogJson = given(logFormat) === 'json';
  if (isLogJson && how === 'bars')
    throw usageError('--progress bars and --log json cannot be combined', [
      'bars are drawn over the lines of a log',
    ]);
  const isTerminal = !isLogJson && canRedraw(env, stderr.isTTY === true);
  const automatic = isQuiet ? 'none' : isTerminal ? 'bars' : 'plain';
  return {
    isJson: given(json) ?? false,
    isLogJson,
    isQuiet,
    isVerbose: given(verbose) ?? false,
    progress: how === 'auto' ? automatic : how,
    outStyle: style(stdout),
    errorStyle: style(stderr),
  };
}

/**
 * For a command line that calls no command (help, version or an error): finds the flags that affect
 * the output. It looks for each flag separately, because the line as a whole may be invalid.
 */
function mannersOfRaw(argv: readonly string[], surroundings: Surroundings): Manners {
  const words = optionWords(argv);
  const values = new Map<string, Sourced<unknown>>();
  for (const option of [json, verbose, noColor]) {
    const isGiven = words.includes(`--${option.name}`) || isSetInEnvironment(option, surroundings.env);
    if (isGiven) values.set(option.name, { value: true, source: '' });
  }
  for (const option of [logFormat, progress]) {
    const isJson = rawValue(option, argv, surroundings.env) === 'json';
    if (isJson) values.set(option.name, { value: 'json', source: '' });
  }
  return mannersOf(values, surroundings);
}

/** For a command line that may be invalid. */
export function wantsJsonLog(argv: readonly string[], env: Environment): boolean {
  return rawValue(logFormat, argv, env) === 'json';
}

function rawValue(
  { name, envName }: Option<unknown>,
  argv: readonly string[],
  env: Environment,
): string | undefined {
  const flag = `--${name}`;
  const words = optionWords(argv);
  const given = words.findLast((word, at) => word.startsWith(`${flag}=`) || words[at - 1] === flag);
  return given?.replace(`${flag}=`, '') ?? env[envName];
}

/** The words that may be options: those before `--`. */
function optionWords(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf('--');
  return end === -1 ? argv : argv.slice(0, end);
}

function isSetInEnvironment(option: Option<boolean>, env: Environment): boolean {
  try {
    return optionFromEnvironment(option, env) !== null;
  } catch {
    // Ignore an invalid value. It is the error being reported, or it will be reported once the
    // present error is corrected.
    return false;
  }
}
