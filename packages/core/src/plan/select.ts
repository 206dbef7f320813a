/** Which checkpoint and which files a restore takes. Pure. */

import picomatch from 'picomatch';
import { CheckpointError } from '../contract/errors.ts';
import { checkpointName, referenceText } from '../contract/reference.ts';
import { unusableText } from '../contract/unusable.ts';
import type { CatalogCheckpoint, CheckpointId, Reference, State } from '../format/index.ts';
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
 * The checkpoint asked for, or the latest. `NotFound` says what there is instead. `Corrupt`: it is
 * quarantined, or the latest is asked for and no checkpoint that is there can be loaded.
 */
export function chooseCheckpoint(state: State, wanted: Reference | 'latest'): CatalogCheckpoint {
  const found = wanted === 'latest' ? latestOf(state) : findReferredTo(state, wanted);
  if (found && (wanted === 'latest' || found.state !== 'QUARANTINED')) return found;
  if (found) {
    const message = `version ${checkpointText(found)} is quarantined: ${found.reason}`;
    throw new CheckpointError('Corrupt', message, { context: { version: found.id.version } });
  }
  if (wanted === 'latest') {
    const none = 'there is no checkpoint to take';
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
  const newest = newestLive(state)?.id.version;
  const have =
    newest === undefined ? noneToLoad(state) : `the newest of ${countLivePath(state)} is ${newest}`;
  const context = version === undefined ? {} : { version };
  return new CheckpointError('NotFound', `${what}: ${have}`, { context });
}

function noneToLoad(state: State): string {
  const there = allCheckpoints(state);
  if (there.length === 0) return 'nothing is committed yet';
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

/** `NotFound`, with what became of it, unless readers are still offered it. */
export function requireLive(checkpoint: CatalogCheckpoint): CatalogCheckpoint {
  const { id, state, reason } = checkpoint;
  if (state === 'LIVE') return checkpoint;
  const what = state === 'RETIRING' ? 'is being retired by retention' : `is quarantined: ${reason}`;
  throw new CheckpointError('NotFound', `version ${checkpointText(checkpoint)} ${what}`, {
    context: { version: id.version },
  });
}

/** As far back as the catalog remembers. */
export function wasRemoved(state: State, { version, lineage }: Reference): boolean {
  const isMeant = (id: CheckpointId) => lineage === undefined || id.lineage === lineage;
  return state.removedRing.some(({ id }) => id.version === version && isMeant(id));
}

/**
 * The checkpoint of this version that a rollback may go back to. `NotFound`: it is not there any more, or not on the way to the latest.
 * `Conflict`: readers are not offered it.
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
    const what =
      found.state === 'RETIRING' ? 'is being retired: take it back first' : `is quarantined: ${found.reason}`;
    throw new CheckpointError('Conflict', `version ${name} ${what}`, { context });
  }
  if (wasRemoved(state, wanted)) {
    throw new CheckpointError('NotFound', `version ${name} was removed`, { context });
  }
  return chooseCheckpoint(state, wanted); // says what there is instead
}

/** The newest live checkpoint committed before `damaged`; `undefined` when there is none. */
export function nextOlder(state: State, damaged: CheckpointId): CatalogCheckpoint | undefined {
  const found = findById(state, damaged);
  return newestLive(state, found && !found.rolledBack ? damaged : undefined);
}

/** Whether a name matches one of the globs. */
export function nameMatcher(globs: readonly string[]): (name: string) => boolean {
  return picomatch([...globs], { dot: true, nonegate: true });
}

/** How names begin that match one of the globs: with what stands before the first character that may mean something to a glob. */
export function nameStarts(globs: readonly string[]): string[] {
  return globs.map((glob) => {
    const [start = ''] = /^[^*?[\]{}()!@+|\\]*/.exec(glob.replace(/^(?:\.\/)+/, '')) ?? [];
    return start.replace(/\/+$/, '');
  });
}

/** `names`: some of those there are; `count`: of all. */
export function noMatch(globs: readonly string[], names: readonly string[], count: number): CheckpointError {
  const wanted = globs.map((glob) => `"${glob}"`).join(' or ');
  const some = names.length > 0 ? names.join(', ') : 'none whose name begins so';
  const more = count > names.length ? `, … (${count} in all)` : '';
  return new CheckpointError('NotFound', `no file matches ${wanted}; there are: ${some}${more}`);
}

/** Which names, of files and of directories, the globs leave out. `InvalidArgument` names the one that is no glob. */
export function excluding(globs: readonly string[]): (name: string) => boolean {
  const wrong = globs.find((glob) => glob.trim() === '' || glob.startsWith('!'));
  if (wrong !== undefined) {
    const message = `${JSON.stringify(wrong)} is no glob of what is left out; write it like "**/*.tmp" or "cache"`;
    throw new CheckpointError('InvalidArgument', message);
  }
  return picomatch([...globs], { dot: true, nonegate: true });
}
