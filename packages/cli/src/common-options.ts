/** Options and operands that several commands share. */

import {
  type CheckpointId,
  type CheckpointReference,
  referenceText,
  SETTINGS,
} from '@holdfast/core/contract';
import type { Call } from './command.ts';
import { jsonVersion } from './json.ts';
import { flag, value, valueList } from './option.ts';
import { usageError } from './usage-error.ts';
import {
  durationBetween,
  parseChoice,
  parseDeadline,
  parseGlob,
  parseLife,
  parseLongDuration,
  parseMeta,
  parseMetric,
  parsePath,
  parseRate,
  parseReference,
  parseReferenceOrLatest,
  parseVersion,
  parseWhole,
  parseWriter,
  sizeBetween,
} from './values.ts';

export const json = flag('--json', 'print one JSON object on standard output when done');
export const progress = value(
  '--progress <how>',
  'auto, bars, plain or json (one event per line on standard error)',
  parseChoice(['auto', 'bars', 'plain', 'json']),
  ['auto', 'bars', 'plain', 'json'],
);
export const logFormat = value(
  '--log <how>',
  'text (the default) or json: messages, warnings and errors on standard error as one object per line',
  parseChoice(['text', 'json']),
  ['text', 'json'],
);
export const quiet = flag(
  '-q, --quiet',
  'print only errors, warnings and results of commands that read; no progress',
);
export const verbose = flag('-v, --verbose', 'say where each value came from; print errors with their stack');
export const noColor = flag('--no-color', 'no colour');

/** Output options of every command. */
export const OUTPUT_OPTIONS = [json, progress, logFormat, quiet, verbose, noColor] as const;

export const storeModule = valueList(
  '--store-module <file>',
  'a JavaScript file that adds URI schemes; may be repeated',
  parsePath,
);

/** Options of every command. */
export const GLOBAL_OPTIONS = [...OUTPUT_OPTIONS, storeModule] as const;

export const version = value('--version <v>', 'the version', parseVersion);
/** V or V@L: after a rollback, two checkpoints may have the same version. */
export const checkpoint = value(
  '--version <v>',
  'the version; V@L: one of lineage L that a rollback left behind, as `list` shows it',
  parseReference,
);
export const checkpointOrLatest = value(
  '--version <v>',
  'the version; V@L: one of lineage L that a rollback left behind, as `list` shows it; default: the latest',
  parseReferenceOrLatest,
);
export const label = value('--label <text>', 'a label', (text) => text);

export function versionOf(given: CheckpointReference): bigint {
  return BigInt(typeof given === 'object' ? given.version : given);
}

/** The value of `checkpointOrLatest`. Errors name a version, because it is put into `subject`. */
export function givenVersion(
  call: Pick<Call, 'get' | 'subject'>,
): CheckpointReference | 'latest' | undefined {
  const given = call.get(checkpointOrLatest);
  if (given !== undefined && given !== 'latest') call.subject.version = versionOf(given);
  return given;
}

/** The reference as given: `7` or `7@1`. */
export function givenText(given: CheckpointReference): string {
  return referenceText(typeof given === 'object' ? given : { version: given });
}

/** The checkpoint that was found, with its lineage if the reference had one. */
export function foundText(given: CheckpointReference | 'latest' | undefined, id: CheckpointId): string {
  return referenceText(typeof given === 'object' ? id : { version: id.version });
}

/** The reference in a command's JSON: `lineage` only if it was given. */
export function jsonGiven(given: CheckpointReference): { version: number | string; lineage?: number } {
  const version = jsonVersion(versionOf(given));
  return typeof given === 'object' ? { version, lineage: given.lineage } : { version };
}

/** For a command without a default checkpoint. Throws `InvalidArgument` if none is given. */
export function requiredCheckpoint(call: Call): CheckpointReference {
  const given = call.get(checkpoint);
  if (given !== undefined) {
    call.subject.version = versionOf(given);
    return given;
  }
  const { name, operands } = call.command;
  throw usageError(`${name} needs --version`, [`usage: holdfast ${name} ${operands} [options]`]);
}

export const writer = value('--writer <i/n>', 'this process is writer I of N; I counts from 0', parseWriter);
export const attempt = value(
  '--attempt <id>',
  'id of this start of the job: the same in all its processes, and never used again',
  (text) => text,
);
export const life = value(
  '--life <id>',
  'name of the trainer, new at each start: all commands that it starts are one writer; or "parent"',
  parseLife,
);
export const timeout = value(
  '--timeout <duration>',
  'how long to wait for other writers, such as 30s or 10m, up to 7d; default 10m',
  durationBetween(0, SETTINGS.commitTimeoutMs.max),
);
export const metric = valueList(
  '--metric <name=number>',
  'a metric of this checkpoint; may be repeated',
  parseMetric,
);
export const meta = valueList(
  '--meta <key=value>',
  'metadata of this checkpoint; may be repeated',
  parseMeta,
);
export const concurrency = value(
  '--concurrency <n>',
  'requests in flight; default: what suits the store',
  parseWhole(1, 1024),
);
export const workers = value(
  '--workers <n>',
  'threads beside the main one; default: as many as pay, none on two processors',
  parseWhole(0, SETTINGS.workers.max),
);
export const buffer = value(
  '--buffer <size>',
  'memory for data in flight, such as 1GiB; default 256MiB',
  sizeBetween(SETTINGS.bufferBytes.min, SETTINGS.bufferBytes.max),
);
export const limitRate = value(
  '--limit-rate <rate>',
  'most payload to send in a second, such as 50MiB/s; default: no limit',
  parseRate,
);

export const maxAge = value(
  '--max-age <duration>',
  'end with status 1 if the latest checkpoint is older, such as 2h',
  parseLongDuration,
);

export const exclude = valueList(
  '--exclude <glob>',
  'leave these out of DIR, such as "**/*.tmp" or "cache"; may be repeated',
  parseGlob,
);
export const links = value(
  '--links <what>',
  'symbolic links in DIR: refuse (the default), skip, or follow, which saves what they lead to',
  parseChoice(['refuse', 'skip', 'follow']),
  ['refuse', 'skip', 'follow'],
);
export const afterSigterm = value(
  '--after-sigterm <duration>',
  'continue for this long after SIGTERM, such as 25s; default: SIGTERM ends it as Ctrl-C does',
  parseDeadline,
);
