/** Selects the checkpoint and the files of a restore. Pure. */

import { CheckpointError } from '../contract/errors.ts';
import { checkpointName, referenceText } from '../contract/reference.ts';
import { unusableText } from '../contract/unusable.ts';
import type { CatalogCheckpoint, CheckpointId, Reference, State } from '../format/index.ts';
import { matcherOf } from './globs.ts';
import {
  allCheckpoints,
  allOfVersion,
  allReferredTo,
  countLivePath,
  findById,
  findReferredTo,
  latestOf,
  newestLive,
  stateNameOf,
} from './state.ts';

/**
 * The requested checkpoint, or the latest. `NotFound` says what exists instead. `Corrupt`: it is
 * quarantined, or the latest is requested and no existing checkpoint can be loaded.
 */
export function chooseCheckpoint(state: State, wanted: Reference | 'latest'): CatalogCheckpoint {
  const found = wanted === 'latest' ? latestOf(state) : findReferredTo(state, wanted);
  if (found && (wanted === 'latest' || found.state !== 'QUARANTINED')) return found;
  if (found) {
    const message = `version ${checkpointText(found)} is quarantined: ${found.reason}; ${whatIsThere(state)}`;
    throw new CheckpointError('Corrupt', message, {
      context: { version: found.id.version, state: 'quarantined' },
    });
  }
  if (wanted === 'latest') {
    const none = 'there is no checkpoint to load';
    // A caller may take `NotFound` for a first start, and begin from scratch.
    if (newestLive(state) !== undefined || allCheckpoints(state).length === 0) throw missing(none, state);
    throw new CheckpointError('Corrupt', `${none}: ${noneToLoad(state)}`, { context: { run: 'unusable' } });
  }
  const { version } = wanted;
  const left = wanted.lineage === undefined ? allOfVersion(state, version).map(checkpointText) : [];
  const how =
    left.length === 0 ? '' : ` on the way to the latest (a rollback left ${left.join(' and ')} behind)`;
  throw missing(`there is no version ${referenceText(wanted)}${how}`, state, version);
}

function missing(what: string, state: State, version?: bigint): CheckpointError {
  const context = version === undefined ? {} : { version };
  return new CheckpointError('NotFound', `${what}: ${whatIsThere(state)}`, { context });
}

/** Which versions can be restored. */
function whatIsThere(state: State): string {
  const newest = newestLive(state)?.id.version;
  if (newest === undefined) return noneToLoad(state);
  return `the newest of ${countLivePath(state)} that can be restored is ${newest}`;
}

function noneToLoad(state: State): string {
  const there = allCheckpoints(state);
  if (there.length === 0) return 'no version is committed yet';
  return unusableText(there.map((each) => ({ state: stateNameOf(each), isLeftBehind: each.rolledBack })));
}

/** As `checkpointName`. */
export function checkpointText({ id, rolledBack }: Pick<CatalogCheckpoint, 'id' | 'rolledBack'>): string {
  return checkpointName(id, rolledBack);
}

/** The checkpoint of this id; `NotFound` once it is removed. */
export function requireById(state: State, id: CheckpointId): CatalogCheckpoint {
  const found = findById(state, id);
  if (found) return found;
  throw new CheckpointError('NotFound', `version ${id.version} has been removed`, {
    context: { version: id.version },
  });
}

/** `NotFound`, with the reason, unless the checkpoint is live. */
export function requireLive(checkpoint: CatalogCheckpoint): CatalogCheckpoint {
  if (checkpoint.state === 'LIVE') return checkpoint;
  const message = `version ${checkpointText(checkpoint)} ${whyNotLive(checkpoint)}`;
  throw new CheckpointError('NotFound', message, { context: { version: checkpoint.id.version } });
}

/** The rest of a sentence that begins with the version of a checkpoint that is not live. */
export function whyNotLive({ state, reason }: Pick<CatalogCheckpoint, 'state' | 'reason'>): string {
  return state === 'RETIRING' ? 'is retired: undelete it first' : `is quarantined: ${reason}`;
}

/** True if the catalog remembers that it was removed; it remembers a limited number. */
export function wasRemoved(state: State, { version, lineage }: Reference): boolean {
  const isMeant = (id: CheckpointId) => lineage === undefined || id.lineage === lineage;
  return state.removedRing.some(({ id }) => id.version === version && isMeant(id));
}

/**
 * The checkpoint of this version that a rollback may go back to. `NotFound`: it no longer exists,
 * or is not on the path to the latest. `Conflict`: it is not live.
 */
export function requireRollbackTarget(state: State, wanted: Reference): CatalogCheckpoint {
  const { version } = wanted;
  const name = referenceText(wanted);
  const context = { version };
  const [found] = allReferredTo(state, wanted);
  if (found?.rolledBack) {
    throw new CheckpointError('NotFound', `version ${name} was left behind by an earlier rollback`, {
      context,
    });
  }
  if (found?.state === 'LIVE') return found;
  if (found) {
    throw new CheckpointError('Conflict', `version ${name} ${whyNotLive(found)}`, { context });
  }
  if (wasRemoved(state, wanted)) {
    throw new CheckpointError('NotFound', `version ${name} was removed`, { context });
  }
  // Throws an error that says what exists instead.
  return chooseCheckpoint(state, wanted);
}

/** The newest live checkpoint committed before `damaged`; `undefined` if there is none. */
export function nextOlder(state: State, damaged: CheckpointId): CatalogCheckpoint | undefined {
  const found = findById(state, damaged);
  return newestLive(state, found && !found.rolledBack ? damaged : undefined);
}

/**
 * Prefixes of the names that match one of the globs: the text before the first character with a
 * meaning in globs.
 */
export function nameStarts(globs: readonly string[]): string[] {
  return globs.map((glob) => {
    const [start = ''] = /^[^*?[\]{}()!@+|\\]*/.exec(glob.replace(/^(?:\.\/)+/, '')) ?? [];
    return start.replace(/\/+$/, '');
  });
}

/** `names`: some of the existing names; `count`: the number of all. */
export function noMatch(globs: readonly string[], names: readonly string[], count: number): CheckpointError {
  const wanted = globs.map((glob) => `"${glob}"`).join(' or ');
  const some = names.length > 0 ? names.join(', ') : 'none whose name begins like that';
  const more = count > names.length ? `, … (${count} in all)` : '';
  return new CheckpointError('NotFound', `no file matches ${wanted}; there are: ${some}${more}`);
}

/**
 * A predicate for names, of files and of directories, that the globs exclude. `InvalidArgument`
 * names an invalid glob.
 */
export function excluding(globs: readonly string[]): (name: string) => boolean {
  const wrong = globs.find((glob) => glob.trim() === '' || glob.startsWith('!'));
  if (wrong !== undefined) {
    const message = `${JSON.stringify(wrong)} is not a glob of files to exclude; write it like "**/*.tmp" or "cache"`;
    throw new CheckpointError('InvalidArgument', message);
  }
  return matcherOf(globs);
}
