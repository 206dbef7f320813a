import type { FsckProblem, FsckResult } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { fsckText, rebuildText } from './fsck-text.ts';
import { plainStyle } from './style.ts';

const options = { uri: 'file:///data/my run', style: plainStyle };

function problem(kind: FsckProblem['kind'], rest: Partial<FsckProblem> = {}): FsckProblem {
  return { kind, id: null, key: 'a/b', objectCount: 1, sizeBytes: 0, message: 'why', ...rest };
}

function result(problems: FsckProblem[], isSound = true): FsckResult {
  return {
    checkpointCount: 3,
    objectCount: 1034,
    totalBytes: 2 ** 30,
    problems,
    isSound,
    skippedManifests: [],
  };
}

describe('fsckText', () => {
  it('a run without findings is one line', () => {
    expect(fsckText(result([]), options)).toBe('sound   3 versions   1,034 objects   1.0 GiB');
  });

  it('findings stand in groups, each with what to do', () => {
    const id = { lineage: 1, epoch: 1, version: 7n };
    const text = fsckText(
      result(
        [
          problem('missing', { id, key: 'version_7/x\u001b', message: 'model.pt is gone' }),
          problem('damaged', { id }),
          problem('garbage', { id, objectCount: 3, sizeBytes: 2048 }),
          problem('garbage', { key: 'c' }),
          problem('skipped', { id, objectCount: 2 }),
          problem('unfinished'),
          problem('abandoned-upload'),
          problem('foreign', { message: 'a/b is not ours' }),
        ],
        false,
      ),
      options,
    );
    const quarantine = "`holdfast verify 'file:///data/my run' --version V --quarantine`";
    expect(text.split('\n')).toEqual([
      'missing  version 7   version_7/x\\x1b   model.pt is gone',
      `  ${quarantine} takes such a version out of use; restore another one`,
      'damaged  version 7   a/b   why',
      `  ${quarantine} takes such a version out of use; restore another one`,
      'garbage  version 7   3 objects from a/b on   2.0 KiB   why',
      'garbage  c   why',
      "  `holdfast gc 'file:///data/my run'` deletes it",
      'held  version 7   2 objects from a/b on   why',
      "  a manifest that a rebuild skipped may refer to it; `holdfast fsck 'file:///data/my run' --release KEY` stops keeping it",
      'unfinished  a/b   why',
      "  its writers may still be saving; `holdfast commit 'file:///data/my run' --version V` finishes it once all have delivered",
      'abandoned upload  a/b   why',
      "  `holdfast gc 'file:///data/my run'` stops it",
      'foreign  a/b is not ours',
      '  not a Holdfast object; ignored. Keep other files elsewhere',
      'not sound   3 versions   1,034 objects   1.0 GiB',
    ]);
  });

  it('manifests that a rebuild skipped are named, so that they can be released', () => {
    const skipped = { ...result([]), skippedManifests: ['version_3/m\u001b'] };
    expect(fsckText(skipped, options).split('\n')[0]).toBe(
      'skipped  version_3/m\\x1b   not in the catalog; its objects are kept',
    );
  });

  it('the first ones of many of a kind are shown', () => {
    const lines = fsckText(result(Array.from({ length: 25 }, () => problem('foreign'))), options).split('\n');
    expect(lines).toHaveLength(23);
    expect(lines[20]).toBe('foreign  5 more of this kind; --json lists all');
  });
});

describe('rebuildText', () => {
  it('says what is in the new catalog, and what was left out', () => {
    const text = rebuildText(
      {
        runId: 'r1',
        formerRunId: 'r0',
        checkpoints: [],
        skipped: [
          { key: 'version_3/m', reason: 'a file is gone', isHeld: false },
          { key: 'version_4/m', reason: 'it is newer', isHeld: true },
        ],
      },
      options,
    );
    expect(text.split('\n')).toEqual([
      'skipped  version_3/m   a file is gone',
      'skipped  version_4/m   it is newer',
      "  gc deletes nothing that it may refer to; `holdfast fsck 'file:///data/my run' --release KEY` stops keeping it",
      'rebuilt  0 versions   run r1, before r0',
      "  no version is verified yet: `holdfast verify 'file:///data/my run'` reads every byte of the latest",
    ]);
  });
});
