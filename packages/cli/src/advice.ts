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
  return [...stands, ...(SPECIFIC[error.code]?.(error, situation) ?? [general(error)])];
}

/** Replaces engine advice that names calls and settings by the same in commands and options. */
function insteadOfEngines({ code, context }: CheckpointError, { subject }: Situation): string[] | null {
  const uri = context.store ?? subject.uri ?? 'URI';
  if (context['catalog'] === 'lost') {
    const rebuild = command('fsck', uri, '--rebuild-catalog');
    return [
      `stop every process of this run; if the catalog cannot be brought back, ${rebuild} writes a new one`,
    ];
  }
  if (context['unreadable'] !== undefined) {
    const mend = code === 'UnsupportedFormat' ? 'rebuild with a newer Holdfast' : 'repeat it';
    return [
      `${mend}; or leave a manifest out with \`--skip KEY\`: its version is then not in the catalog, and what it may refer to is kept`,
    ];
  }
  if (context['stopped'] === 'collection') {
    const which = String(context['checkpoint'] ?? context.version);
    const verify = command('verify', uri, '--version', which, '--quarantine');
    return [`${verify} takes it out of the way, and collection goes on`];
  }
  if (context['state'] === 'retiring')
    return [
      'nothing was changed',
      `${command('undelete', uri, '--version', String(context['checkpoint']))} takes the version back`,
    ];
  if (context['state'] === 'quarantined')
    return ['nothing was changed', `${command('list', uri)} shows which versions are live`];
  return null;
}

/**
 * Replaces the library's advice for codes whose advice names calls or settings, and that have no
 * specific advice below.
 */
const GENERAL: Readonly<Partial<Record<CheckpointError['code'], string>>> = {
  Corrupt: 'restore another version (`--on-corrupt fallback`) and find out what damaged the object',
  Stale: 'find out why the trainer wrote no new files; pass `--on-stale warn` to save them anyway',
  OutcomeUnknown: 'run `holdfast recover` with the token of the message; delete nothing',
  Unexpected: 'report it with the whole message (`--verbose`)',
};

function general(error: CheckpointError): string {
  return GENERAL[error.code] ?? sentence(error.advice);
}

type Advise = (error: CheckpointError, situation: Situation) => string[] | null;

const SPECIFIC: Readonly<Partial<Record<CheckpointError['code'], Advise>>> = {
  Incomplete: incomplete,
  Fenced: fenced,
  OutcomeUnknown: outcomeUnknown,
  Corrupt: corrupt,
  NotFound: notFound,
  Denied: denied,
  InvalidArgument: invalidArgument,
  Conflict: conflict,
  TargetExists: targetExists,
  Aborted: aborted,
  TimedOut: timedOut,
};

function targetExists({ context }: CheckpointError, { command: name }: Situation): string[] {
  if (context['foreignCount'] !== undefined) {
    return [
      '--replace takes only what Holdfast has put there and nothing has written to since',
      'write to another place; --replace=everything says how many files would go, and asks',
    ];
  }
  // No option can replace it.
  if (context['replaceable'] === false) {
    if (name === 'certify') return ['name another file'];
    return [isElasticdl(name) ? 'write to another place' : 'restore into a new or empty directory'];
  }
  if (name === 'certify') return ['name another file, or pass --replace'];
  return isElasticdl(name)
    ? ['write to another place, or pass --replace to put it in the place of what is there']
    : ['restore into a new or empty directory, or pass --replace to put the checkpoint in its place'];
}

function conflict(_: CheckpointError, { command: name, subject }: Situation): string[] {
  const unchanged = 'nothing that is committed was changed';
  const uri = subject.uri ?? 'URI';
  switch (name) {
    case 'mirror':
      return [unchanged, 'mirror into a new place: this one holds checkpoints that are not of FROM'];
    case 'save':
    case 'commit':
      return [unchanged, `save a higher version; ${command('latest', uri)} prints the newest`];
    case 'gc':
      return [
        `${command('gc', uri, '--explain')}, with the same rules, says which versions go and why`,
        '--force goes on all the same',
      ];
    case 'undelete':
      return ['nothing was changed', `${command('list', uri)} shows which versions are retired`];
    case 'fsck':
      return ['nothing was changed', `${command('list', uri)} shows what the catalog has`];
    default:
      return ['nothing was changed'];
  }
}

function incomplete(error: CheckpointError, { command: name, subject }: Situation): string[] {
  const missing = error.context.missing ?? [];
  const shown = missing.slice(0, 8).map(({ detail }) => printable(detail));
  if (missing.length > shown.length) shown.push(`${missing.length - shown.length} more`);
  const finish = `${finishCommand(error, subject)} finishes it once they deliver`;
  const ends = name === 'save' && subject.hasLife !== true;
  return [
    ...(shown.length > 0 ? [shown.join('; ')] : []),
    name === 'save' ? `your files are safe in the store; ${finish}` : finish,
    ...(ends ? ['a later save of this writer voids it, unless both pass the same --life'] : []),
  ];
}

function fenced({ context }: CheckpointError, { command: name, subject }: Situation): string[] {
  if (name === 'mirror' || name === 'fork') {
    return ['another mirror, or a job, writes there now; run it again if this one is to take over'];
  }
  const isWriter = name === 'save' || name === 'elasticdl import' || subject.hasLife === true;
  if (!isWriter) return ['the run has gone on meanwhile, and nothing was changed; run it again'];
  switch (context.overtakenBy) {
    case 'process':
      return [
        `another process of ${context.writer === undefined ? 'this writer' : `writer ${context.writer}`} joined later, and only the last one counts`,
        subject.hasLife === true
          ? 'if this trainer is the one that is to go on, restore and start it under a new --life'
          : 'if one trainer starts both processes, pass --life ID to each; else stop the older trainer',
      ];
    case 'rollback':
      return [
        'the run was rolled back: what this trainer has learnt since is left behind',
        `start it again from ${command('restore', subject.uri ?? 'URI', 'DIR')}${subject.hasLife === true ? ', under a new --life' : ''}`,
      ];
    default:
      if (subject.isLoneWriter !== true) return ['stop this job: nothing it saves can be committed any more'];
      return [
        'a save without --attempt takes the run over, and another one did so meanwhile',
        'give processes of one job the same --attempt, and they work side by side',
      ];
  }
}

function outcomeUnknown(error: CheckpointError, { subject, progress }: Situation): string[] {
  const token = error.context.token;
  if (token === undefined || subject.uri === undefined) return [general(error)];
  const asked = askedOf(error);
  const tells = `${command('recover', subject.uri, token)} tells what became of it`;
  if (asked?.outcome !== 'pending') return ['it may have taken effect, or may yet; delete nothing', tells];
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
    return [
      'nothing of that version was committed there',
      '--skip-corrupt passes it over; it can then not be added later',
    ];
  }
  if (isElasticdl(name)) return corruptElasticdl(name, error);
  if (name === 'fsck') return ['what to do stands with each kind of finding'];
  if (name === 'fork') return ['nothing was committed there; fork another version'];
  if (name !== 'restore' || subject.uri === undefined || subject.path === undefined) return null;
  if (subject.alternative === undefined)
    return ['nothing was restored, and there is no other version to fall back to'];
  const fallback = command('restore', subject.uri, subject.path, '--on-corrupt', 'fallback');
  return ['nothing was restored', `${fallback} takes the newest version whose bytes all verify`];
}

/** No other version helps, because the list of versions cannot be read. */
function corruptCatalog({ context }: CheckpointError, subject: Subject): string[] {
  const uri = context.store ?? subject.uri ?? 'URI';
  if (context['catalog'] === 'older')
    return [
      'an older decision cannot be read; nothing but the log needs it',
      `${command('list', uri)} shows the versions`,
    ];
  const keys = Array.isArray(context['keys']) ? context['keys'].map(String) : [];
  const others = keys.length > 1 ? `, and of the ${keys.length - 1} more that the message names` : '';
  return [
    'the newest decision of the run cannot be read; the checkpoints themselves are not touched',
    `put back an intact copy of ${printable(context.key ?? 'that object')}${others}, if the store has versions of it, or a backup`,
    'if there is no copy: stop every process of the run, move all that is below catalog/ aside, and run',
    command('fsck', uri, '--rebuild-catalog', '--apply'),
  ];
}

function invalidArgument({ context }: CheckpointError, { command: name }: Situation): string[] | null {
  if (context['place'] === 'shared') {
    const anyway = name === 'save' ? ['--force begins one here all the same'] : [];
    return ['name a place of its own for each run', ...anyway];
  }
  // The engine names its options as programs pass them.
  if (!isElasticdl(name)) return null;
  switch (context['option']) {
    case 'numbering':
      return ['as an option: --numbering elasticdl, or --numbering tensorflow'];
    case 'rowCounts':
      return ['as options: --dense TABLE=ROWS, --dense-all ROWS'];
    case 'bufferBytes':
      return [`as an option: --buffer ${context['neededBytes']}B`];
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
      return [`nothing of that version was committed; ${another}`];
    default:
      return [`nothing was written; ${another}`];
  }
}

/**
 * `wholeVersion`: the newest other complete version; `null`: there is none; `undefined`: not
 * searched.
 */
function otherVersion(wholeVersion: unknown): string {
  if (wholeVersion === undefined) return 'another version, if there is one, is taken with --version V';
  if (wholeVersion === null) return 'no other version there is whole';
  return `version ${wholeVersion} is whole: it is taken with --version ${wholeVersion}`;
}

function notFound(error: CheckpointError, { command: name, subject }: Situation): string[] {
  const { uri } = subject;
  const checkUri = 'check the URI; a run begins with its first save';
  if (error.context.path !== undefined || uri === undefined) return ['check the path'];
  if (error.context['bucket'] === 'missing')
    return ['check the name of the bucket and the endpoint; Holdfast makes no buckets'];
  if (Number(error.context['manifestCount']) > 0)
    return [`${command('fsck', uri, '--rebuild-catalog')} writes a new catalog from them`];
  const below = error.context['runsBelow'];
  if (Array.isArray(below) && below.length > 0)
    return ['the URI names what holds runs: put the name of one behind it'];
  if (error.context['runAround'] !== undefined)
    return ['the URI leads into a run: name the run itself, or another place'];
  if (error.context['run'] === 'missing' || name === 'fsck') return [checkUri];
  if (error.context['run'] === 'empty')
    return [`a save counts once it is committed; ${command('log', uri)} shows what was begun`];
  const files = name === 'restore' ? `; ${command('show', uri)} the files of the latest` : '';
  return [`${command('list', uri)} shows the versions${files}`];
}

/** For a directory, credentials are not the cause. */
function denied({ context }: CheckpointError): string[] | null {
  const isLocal = context.path !== undefined || context.store?.startsWith('file:') === true;
  if (!isLocal) return null;
  return ['check who owns it and what its mode permits; a container may run as another user than you'];
}

/** There are checkpoints: what each kind of them needs. */
function unusable({ context }: CheckpointError, uri: string): string[] {
  const { retired, leftBehind } = context;
  const undelete = command('undelete', uri, '--version', String(retired));
  const restore = command('restore', uri, 'DIR', '--version', String(leftBehind));
  return [
    'this is no first start: a job that begins anew leaves what it has learnt behind',
    ...(retired === undefined ? [] : [`${undelete} takes the newest retired version back`]),
    ...(leftBehind === undefined ? [] : [`${restore} restores the newest that a rollback left behind`]),
    `${command('list', uri)} shows the versions, ${command('log', uri)} who took them out of use and why`,
    'verify with --version V says what is damaged of a quarantined one; a mirror or backup may have it intact',
  ];
}

function timedOut(_: CheckpointError, { command: name, subject }: Situation): string[] | null {
  if (name !== 'preempt' || subject.uri === undefined) return null;
  return [`${command('latest', subject.uri)} prints the newest durable version once the store answers`];
}

function aborted(error: CheckpointError, { command: name, subject, progress }: Situation): string[] {
  const { done } = error.context;
  const asked = askedOf(error);
  if (name === 'restore' || (isElasticdl(name) && subject.path !== undefined))
    return [`nothing was put at ${printable(subject.path ?? 'the destination')}`];
  if (name === 'mirror' || name === 'elasticdl import')
    return ['what was committed before stays; run it again to go on'];
  if (name === 'fork') return ['nothing is committed there; run it again to go on'];
  if (subject.isCollecting === true) {
    return [
      'what it retired until then can be taken back with `holdfast undelete`; what it removed is gone',
      'objects that belong to no version may be left: the next gc goes on where this one ended',
    ];
  }
  if (name === 'preempt') return ['no save was stopped: those that are under way go on'];
  if (name === 'save') return abortedSave(error, { subject, progress });
  const isChanged = done !== undefined || asked?.outcome === 'committed';
  return isChanged ? ['run it again to go on'] : ['nothing was changed'];
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
    `version ${version} is not committed; what was sent of it stays in the store, belongs to no checkpoint and can be collected`,
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
