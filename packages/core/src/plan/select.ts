/** Which checkpoint and which files a restore takes. Pure. */

import picomatch from 'picomatch';
import { CheckpointError } from '../contract/errors.ts';
import { type CatalogCheckpoint, type CheckpointId, referenceText, type State } from '../format/index.ts';
import { allOfVersion, countLivePath, findById, findByVersion, latestOf, newestLive } from './state.ts';

/** The checkpoint asked for, or the latest. `NotFound` says what there is instead. */
export function chooseCheckpoint(state: State, version: bigint | 'latest'): CatalogCheckpoint {
  const found = version === 'latest' ? latestOf(state) : findByVersion(state, version);
  if (found && (version === 'latest' || found.state !== 'QUARANTINED')) return found;
  if (found) {
    throw new CheckpointError('Corrupt', `version ${version} is quarantined: ${found.reason}`, {
      context: { version: version as bigint },
    });
  }
  const newest = newestLive(state)?.id.version;
  const have =
    newest === undefined ? 'nothing is committed yet' : `the newest of ${countLivePath(state)} is ${newest}`;
  const wanted = version === 'latest' ? 'there is no checkpoint to take' : `there is no version ${version}`;
  throw new CheckpointError('NotFound', `${wanted}: ${have}`, {
    context: version === 'latest' ? {} : { version },
  });
}

/** `7`, and with its lineage where a rollback left it behind: what a version alone names is on the way to the latest. */
export function checkpointText({ id, rolledBack }: Pick<CatalogCheckpoint, 'id' | 'rolledBack'>): string {
  return referenceText(rolledBack ? id : { version: id.version });
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
  throw new CheckpointError('NotFound', `version ${id.version} ${what}`, {
    context: { version: id.version },
  });
}

/**
 * The checkpoint of this version that a rollback may go back to. `NotFound`: it is not there any more, or not on the way to the latest.
 * `Conflict`: readers are not offered it.
 */
export function requireRollbackTarget(state: State, version: bigint): CatalogCheckpoint {
  const found = findByVersion(state, version);
  const context = { version };
  if (found?.state === 'LIVE') return found;
  if (found) {
    const what =
      found.state === 'RETIRING' ? 'is being retired: take it back first' : `is quarantined: ${found.reason}`;
    throw new CheckpointError('Conflict', `version ${version} ${what}`, { context });
  }
  if (allOfVersion(state, version).length > 0) {
    throw new CheckpointError('NotFound', `version ${version} was left behind by an earlier rollback`, {
      context,
    });
  }
  if (state.removedRing.some(({ id }) => id.version === version)) {
    throw new CheckpointError('NotFound', `version ${version} was removed`, { context });
  }
  return chooseCheckpoint(state, version); // says what there is instead
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
