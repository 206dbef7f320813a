/** Advice about an error for people: the lines between the message and the code. Pure. */

import type { CheckpointError } from '@holdfast/core/contract';
import { askedOf } from './ask-once-more.ts';
import type { Subject } from './command.ts';
import { printable, shellQuote } from './format.ts';
import type { ProgressState } from './progress/progress-state.ts';

export interface Situation {
  /** Name of the command; empty before it is known. */
  readonly command: string;
  readonly subject: Subject;
  readonly progress: ProgressState;
}

/** The reason, then what to do: a line each, without indentation. */
export function adviceFor(error: CheckpointError, situation: Situation): string[] {
  const given = insteadOfEngines(error, situation) ?? error.context['advice'];
  if (Array.isArray(given)) return given.map(String);
  const stands = (error.context.done ?? []).map(printable);
  return [...stands, ...(SPECIFIC[error.code]?.(error, situation) ?? general(error))];
}

/** Replaces engine advice that names calls and settings by the same in commands and options. */
function insteadOfEngines({ code, context }: CheckpointError, { subject }: Situation): string[] | null {
  const uri = context.store ?? subject.uri ?? 'URI';
  if (context['catalog'] === 'lost') {
    const rebuild = command('fsck', uri, '--rebuild-catalog');
    return [`stop every process of this run; if the catalog cannot be restored, ${rebuild} writes a new one`];
  }
  if (context['catalog'] === 'another-run')
    return [
      'since the command began, the run was removed and begun again there, or its catalog was rebuilt',
      'nothing more was written; run it again: it then works on the run that is there now',
    ];
  if (context['unreadable'] !== undefined) {
    const mend = code === 'UnsupportedFormat' ? 'rebuild with a newer Holdfast' : 'repeat the rebuild';
    return [
      `${mend}; or skip a manifest with \`--skip KEY\`: its version is then not in the catalog, and the objects that it may refer to are kept`,
    ];
  }
  if (context['stopped'] === 'collection') {
    const which = String(context['checkpoint'] ?? context.version);
    const verify = command('verify', uri, '--version', which, '--quarantine');
    if (context['quarantined'] === true)
      return [`version ${which} is quarantined, but its receipts cannot be read either: restore its records`];
    return [`${verify} quarantines it; collection continues if its receipts can be read`];
  }
  if (context['state'] === 'retiring')
    return [
      'nothing was changed',
      `${command('undelete', uri, '--version', String(context['checkpoint']))} makes it live again`,
    ];
  if (context['state'] === 'quarantined')
    return ['nothing was changed', `${command('list', uri)} shows which versions are live`];
  return null;
}

/** Replaces the library's advice where that names calls or settings. */
const GENERAL: Readonly<Partial<Record<CheckpointError['code'], string>>> = {
  WorldSizeMismatch:
    'pass the same number of writers to all processes of one attempt (`--writer INDEX/COUNT`), or a new --attempt',
  Unsupported: 'use a store that can do this, or the command without the option that needs it',
  Incomplete: '`holdfast commit` finishes it once the named writers have delivered',
  Fenced: 'stop this process: a newer attempt, rollback or life of the same writer owns the run',
  Corrupt: 'restore another version (`--on-corrupt fallback`) and find out what damaged the object',
  TargetExists: 'restore into a new or empty directory, or pass --replace',
  Stale: 'find out why the trainer wrote no new files; pass `--on-stale warn` to save them anyway',
  SourceChanged:
    'save again when nothing writes to the source; `--exclude GLOB` leaves out a file that is always written to, such as a log',
  StorageFull: 'free space or raise the quota, then run the command again',
  Throttled: 'run the command again later; `--concurrency` limits the requests that it sends at a time',
  Unavailable: 'check that the store can be reached, then run the command again; `holdfast doctor` tests it',
  TimedOut: 'run the command again; `holdfast doctor` measures how fast the store answers',
  OutcomeUnknown: 'run `holdfast recover` with the token of the message; delete nothing',
  Aborted: 'run the command again: its decision was not sent',
  Unexpected: 'report it, with what the same command prints under `--verbose`',
};

/** Codes whose messages name what is wrong and what is accepted: advice would only repeat that. */
const WITHOUT_ADVICE: ReadonlySet<CheckpointError['code']> = new Set(['InvalidArgument', 'InvalidConfig']);

function general(error: CheckpointError): string[] {
  return WITHOUT_ADVICE.has(error.code) ? [] : [GENERAL[error.code] ?? sentence(error.advice)];
}

type Advise = (error: CheckpointError, situation: Situation) => string[] | null;

const SPECIFIC: Readonly<Partial<Record<CheckpointError['code'], Advise>>> = {
  Incomplete: incomplete,
  Fenced: fenced,
  OutcomeUnknown: outcomeUnknown,
  Corrupt: corrupt,
  StoreRegressed: storeRegressed,
  NotFound: notFound,
  Denied: denied,
  InvalidArgument: invalidArgument,
  Conflict: conflict,
  TargetExists: targetExists,
  Aborted: aborted,
  TimedOut: timedOut,
  Unavailable: unavailable,
};

function targetExists({ context }: CheckpointError, { command: name }: Situation): string[] {
  if (name === 'report') return ['name another file'];
  if (context['foreignCount'] !== undefined) {
    return [
      '--replace replaces only files that Holdfast put there and that have not changed since',
      'write to another place; --replace=everything says how many files it would delete, and asks',
    ];
  }
  // No option can replace it.
  if (context['replaceable'] === false) {
    if (name === 'certify') return ['name another file'];
    return [isElasticdl(name) ? 'write to another place' : 'restore into a new or empty directory'];
  }
  if (name === 'certify') return ['name another file, or pass --replace'];
  return isElasticdl(name)
    ? ['write to another place, or pass --replace to replace what is there']
    : ['restore into a new or empty directory, or pass --replace to replace this one'];
}

function conflict(_: CheckpointError, { command: name, subject }: Situation): string[] {
  const unchanged = 'no committed version was changed';
  const uri = subject.uri ?? 'URI';
  switch (name) {
    case 'mirror':
      return [unchanged, 'mirror to a new place: this one holds checkpoints that are not from FROM'];
    case 'save':
    case 'commit':
      return [unchanged, `save a higher version; ${command('latest', uri)} prints the newest`];
    case 'gc':
      return [
        `${command('gc', uri, '--explain')}, with the same rules, shows which versions it would drop, and why`,
        '--force drops them nevertheless',
      ];
    case 'undelete':
      return ['nothing was changed', `${command('list', uri)} shows which versions are retired`];
    case 'fsck':
      return ['nothing was changed', `${command('list', uri)} shows the versions in the catalog`];
    default:
      return ['nothing was changed'];
  }
}

function incomplete(error: CheckpointError, { command: name, subject }: Situation): string[] {
  const missing = error.context.missing ?? [];
  const shown = missing.slice(0, 8).map(({ detail }) => printable(detail));
  if (missing.length > shown.length) shown.push(`${missing.length - shown.length} more`);
  const finish = `${finishCommand(error, subject)} finishes it once they have delivered`;
  const ends = name === 'save' && subject.hasLife !== true;
  return [
    ...(shown.length > 0 ? [shown.join('; ')] : []),
    name === 'save' ? `your files are safe in the store; ${finish}` : finish,
    ...(ends
      ? ['a later save of this writer voids what this one delivered, unless both pass the same --life']
      : []),
  ];
}

function fenced({ context }: CheckpointError, { command: name, subject }: Situation): string[] {
  if (name === 'mirror' || name === 'fork') {
    return ['another mirror or a job now writes there; run this again to take the run over'];
  }
  const isWriter = name === 'save' || name === 'elasticdl import' || subject.hasLife === true;
  if (!isWriter) return ['the run changed meanwhile, and this command changed nothing; run it again'];
  switch (context.overtakenBy) {
    case 'process':
      return [
        `another process of ${context.writer === undefined ? 'this writer' : `writer ${context.writer}`} joined later, and only the last one can commit`,
        subject.hasLife === true
          ? 'if this trainer should continue, restore and start it under a new --life'
          : 'if one trainer starts both processes, pass --life ID to each; else stop the older trainer',
      ];
    case 'rollback':
      return [
        'the run was rolled back: what this trainer has learnt since then is left behind',
        `start it again from ${command('restore', subject.uri ?? 'URI', 'DIR')}${subject.hasLife === true ? ', under a new --life' : ''}`,
      ];
    default:
      if (subject.isLoneWriter !== true) return ['stop this job: nothing it saves can be committed any more'];
      return [
        'a save without --attempt takes the run over, and another save did so meanwhile',
        'pass the same --attempt to all processes of one job, so that they save together',
      ];
  }
}

function outcomeUnknown(error: CheckpointError, { subject, progress }: Situation): string[] {
  const token = error.context.token;
  if (token === undefined || subject.uri === undefined) return general(error);
  const asked = askedOf(error);
  const tells = `${command('recover', subject.uri, token)} prints the outcome`;
  if (asked?.outcome !== 'pending')
    return ['it may have taken effect, or may still take effect; delete nothing', tells];
  if (asked.of !== 'commit') return ['run it again to make sure; delete nothing', tells];
  if (asked.isDelivered === false) return ['save it again; delete nothing', tells];
  const safe = asked.isDelivered ? ['your files are safe in the store'] : [];
  const others = (progress.writer?.count ?? 1) === 1 ? '' : ' once every writer has delivered';
  return [...safe, `${finishCommand(error, subject)} finishes it${others}`, tells];
}

function corrupt(error: CheckpointError, { command: name, subject }: Situation): string[] | null {
  if (error.context['catalog'] !== undefined) return corruptCatalog(error, subject);
  if (error.context['run'] === 'unusable' && subject.uri !== undefined) return unusable(error, subject.uri);
  if (name === 'mirror' && error.context['lent'] === true) {
    return ['that version was not committed there', '--skip-corrupt skips it; it cannot be added later'];
  }
  if (isElasticdl(name)) return corruptElasticdl(name, error);
  if (name === 'fsck') return ['the result says what to do about each kind of finding'];
  if (name === 'save')
    return [
      'nothing was committed: the store has lost or changed what was sent',
      'save again; `holdfast doctor` tests the store',
    ];
  if (name === 'fork') return ['nothing was committed there; fork another version'];
  if (name === 'elect')
    return [
      `no trainer is elected; restore an intact copy of ${printable(error.context.key ?? 'that object')}`,
      'if there is no copy: delete it when the time of the last election is over',
    ];
  if (name !== 'restore' || subject.uri === undefined || subject.path === undefined) return null;
  if (subject.alternative === undefined)
    return ['nothing was restored, and there is no other version to fall back to'];
  const fallback = command('restore', subject.uri, subject.path, '--on-corrupt', 'fallback');
  return ['nothing was restored', `${fallback} takes the newest version whose bytes all verify`];
}

/** A rebuild refuses while there are entries. */
function storeRegressed({ context }: CheckpointError, { subject }: Situation): string[] {
  return [
    'stop every process of this run and put back the entries that are missing, if there is a backup',
    'if there is none: move everything below catalog/ elsewhere, and run',
    command('fsck', context.store ?? subject.uri ?? 'URI', '--rebuild-catalog', '--apply'),
  ];
}

/** No other version helps, because the list of versions cannot be read. */
function corruptCatalog({ context }: CheckpointError, subject: Subject): string[] {
  const uri = context.store ?? subject.uri ?? 'URI';
  if (context['catalog'] === 'older')
    return [
      'an older decision cannot be read; only the log needs it',
      `${command('list', uri)} shows the versions`,
    ];
  const keys = Array.isArray(context['keys']) ? context['keys'].map(String) : [];
  const others = keys.length > 1 ? `, and of the ${keys.length - 1} more that the message names` : '';
  return [
    'the newest decision of the run cannot be read; the checkpoints themselves are not affected',
    `restore an intact copy of ${printable(context.key ?? 'that object')}${others}, if the store has versions of it, or a backup`,
    'if there is no copy: stop every process of the run, move everything below catalog/ elsewhere, and run',
    command('fsck', uri, '--rebuild-catalog', '--apply'),
  ];
}

function invalidArgument({ context }: CheckpointError, { command: name }: Situation): string[] | null {
  if (context['place'] === 'shared') {
    const anyway = name === 'save' ? ['--force begins a run here nevertheless'] : [];
    return ['use a separate place for each run', ...anyway];
  }
  // The engine names its options as programs pass them.
  if (!isElasticdl(name)) return null;
  switch (context['option']) {
    case 'numbering':
      return ['pass --numbering elasticdl or --numbering tensorflow'];
    case 'rowCounts':
      return ['pass --dense TABLE=ROWS or --dense-all ROWS'];
    case 'bufferBytes':
      return [`pass --buffer ${context['neededBytes']}B`];
    default:
      return null;
  }
}

const isElasticdl = (name: string) => name.startsWith('elasticdl ');

function corruptElasticdl(name: string, { context }: CheckpointError): string[] {
  const another = otherVersion(context['wholeVersion']);
  switch (name) {
    case 'elasticdl inspect':
      return [another];
    case 'elasticdl import':
      return [`that version was not committed; ${another}`];
    default:
      return [`nothing was written; ${another}`];
  }
}

/**
 * `wholeVersion`: the newest other complete version; `null`: there is none; `undefined`: not
 * searched.
 */
function otherVersion(wholeVersion: unknown): string {
  if (wholeVersion === undefined) return '--version V takes another version, if there is one';
  if (wholeVersion === null) return 'there is no other complete version';
  return `version ${wholeVersion} is complete: pass --version ${wholeVersion} to take it`;
}

function notFound(error: CheckpointError, { command: name, subject }: Situation): string[] {
  const { uri } = subject;
  const checkUri = 'check the URI; a run begins with its first save';
  if (error.context.path !== undefined || uri === undefined) return ['check the path'];
  if (error.context['bucket'] === 'missing')
    return ['check the name of the bucket and the endpoint; Holdfast creates no buckets'];
  const below = error.context['runsBelow'];
  if (Array.isArray(below) && below.length > 0)
    return ['there are runs below this URI: append the name of one'];
  if (error.context['runAround'] !== undefined)
    return ['the URI lies inside a run: give the URI of that run, or another place'];
  if (error.context['run'] === 'missing' || name === 'fsck') return [checkUri];
  if (error.context['run'] === 'empty')
    return [`a save counts once it is committed; ${command('log', uri)} shows what was begun`];
  if (error.context['tensors'] === 'missing')
    return [`${command('inspect', uri)} shows the tensors of the latest, and its other files`];
  const files = name === 'restore' ? `; ${command('show', uri)} the files of the latest` : '';
  return [`${command('list', uri)} shows the versions${files}`];
}

/** For a directory, credentials are not the cause. */
function denied({ context }: CheckpointError): string[] | null {
  const isLocal = context.path !== undefined || context.store?.startsWith('file:') === true;
  if (!isLocal) return null;
  return ['check its owner and mode; a container may run as another user than you'];
}

/** There are checkpoints: what each kind of them needs. */
function unusable({ context }: CheckpointError, uri: string): string[] {
  const { retired, leftBehind } = context;
  const undelete = command('undelete', uri, '--version', String(retired));
  const restore = command('restore', uri, 'DIR', '--version', String(leftBehind));
  return [
    'this is not a first start: a job that starts from the beginning loses what was learnt',
    ...(retired === undefined ? [] : [`${undelete} makes the newest retired version live again`]),
    ...(leftBehind === undefined ? [] : [`${restore} restores the newest that a rollback left behind`]),
    `${command('list', uri)} shows the versions, ${command('log', uri)} who took them out of use and why`,
    'verify with --version V says what is damaged in a quarantined one; a mirror or backup may have an intact copy',
  ];
}

/** A limit of this process is no fault of the store. */
function unavailable({ cause }: CheckpointError): string[] | null {
  if ((cause as NodeJS.ErrnoException | undefined)?.code !== 'EMFILE') return null;
  return ['allow it more open files (`ulimit -n`), or pass a lower `--concurrency`; then run it again'];
}

function timedOut(_: CheckpointError, { command: name, subject }: Situation): string[] | null {
  if (name !== 'preempt' || subject.uri === undefined) return null;
  return [`${command('latest', subject.uri)} prints the newest durable version once the store answers`];
}

function aborted(error: CheckpointError, { command: name, subject, progress }: Situation): string[] {
  const { done } = error.context;
  const asked = askedOf(error);
  if (name === 'restore' || (isElasticdl(name) && subject.path !== undefined))
    return [`nothing was written to ${printable(subject.path ?? 'the destination')}`];
  if (name === 'mirror' || name === 'elasticdl import')
    return ['what was committed before stays; run it again to continue'];
  if (name === 'fork') return ['nothing is committed there; run it again to continue'];
  const isRecordThere = asked?.of === 'record' && asked.outcome === 'committed';
  const left = isRecordThere ? leftRecord(error, name, subject) : null;
  if (left !== null) return left;
  if (subject.isCollecting === true) {
    return [
      '`holdfast undelete` makes the versions that it retired live again; what it removed is gone',
      'objects that belong to no version may remain: the next gc continues where this one ended',
    ];
  }
  if (name === 'preempt') return ['no save was stopped: those in progress continue'];
  if (name === 'save') return abortedSave(error, { subject, progress });
  const isChanged = done !== undefined || asked?.outcome === 'committed';
  return isChanged ? ['run it again to continue'] : ['nothing was changed'];
}

/** The record that decides is there, but the command was stopped before it had its result. */
function leftRecord({ context }: CheckpointError, name: string, subject: Subject): string[] | null {
  const uri = subject.uri ?? 'URI';
  switch (name) {
    case 'elect':
      return ['this trainer may be elected, and others wait for it: run it again to make sure'];
    case 'lease': {
      const id = /^leases\/(.+)\.json$/.exec(context.key ?? '')?.[1] ?? 'ID';
      return [`it protects the version until its time; ${command('lease', uri, '--release', id)} ends it`];
    }
    case 'fsck':
      return [`there is a catalog again; ${command('fsck', uri)} checks the run`];
    default:
      return null;
  }
}

function abortedSave(
  error: CheckpointError,
  { subject, progress }: Pick<Situation, 'subject' | 'progress'>,
): string[] {
  const { done, takeoverToken } = error.context;
  if (progress.phase === 'starting')
    return [done === undefined && takeoverToken === undefined ? 'nothing was sent' : 'nothing was saved'];
  const version = progress.version ?? subject.version;
  return [
    `version ${version} is not committed; what was sent for it stays in the store, belongs to no checkpoint and can be collected`,
  ];
}

function finishCommand(error: CheckpointError, subject: Subject): string {
  const version = error.context.version ?? subject.version;
  const uri = subject.uri ?? 'URI';
  return version === undefined
    ? command('commit', uri)
    : command('commit', uri, '--version', String(version));
}

/** A command line to copy, in backquotes. */
function command(...words: string[]): string {
  return `\`holdfast ${words.map(shellQuote).join(' ')}\``;
}

/** Formats a full sentence as a line: no capital, no full stop. */
export function sentence(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1).replace(/\.$/, '');
}
