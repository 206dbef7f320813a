import { describe, expect, test } from 'vitest';
import { type CheckpointId, idText, type Manifest } from '../format/index.ts';
import { chooseManifests, type FoundManifest, Inventory, rebuiltState } from './rebuild.ts';

const at = (lineage: number, epoch: number, version: bigint): CheckpointId => ({ lineage, epoch, version });

/** `lives`: the incarnation of each writer. */
function found(id: CheckpointId, lives: readonly number[] = [0], problem?: string): FoundManifest {
  const prefix = `version_${id.version}/${id.lineage}.${id.epoch}/`;
  const file = (key: string, sizeBytes: number) => ({
    ...{ name: key.slice(-1), key, sizeBytes, crc32c: 0, partSizeBytes: 0, mode: 0, mtimeMs: 0 },
    ...{ partCrc32c: new Uint8Array(), blake3: new Uint8Array() },
  });
  const manifest: Manifest = {
    format: undefined,
    id,
    worldSize: lives.length,
    writers: lives.map((incarnation, writer) => ({
      ...{ writer, incarnation, receiptKey: 'r', receiptSha256: new Uint8Array(32) },
      directories: [],
      files: [file(`${prefix}0.0-a/w`, 10), file('version_0/1.1/0.0-a/b', 5)],
    })),
    ...{ bases: [], metrics: { loss: 2 }, metadata: {}, suspicions: [], receipts: [] },
  };
  const key = `${prefix}manifest-${lives.join('')}`;
  const inventory = new Inventory(id);
  for (const { files } of manifest.writers) inventory.add(manifest, files);
  return { key, id, sha256: new Uint8Array(32), createdAtMs: 7.4, manifest, inventory, problem };
}

function choose(manifests: readonly FoundManifest[], unreadable: readonly CheckpointId[] = []) {
  const { checkpoints, leftOut } = chooseManifests(manifests, unreadable);
  return {
    kept: checkpoints.map((each) => `${idText(each.id)}${each.rolledBack ? ' rolled back' : ''}`),
    skipped: leftOut.map(({ key, reason }) => `${key}: ${reason}`),
    checkpoints,
  };
}

test("each manifest is a live checkpoint, unverified, with the store's time, in the order in which they were committed", () => {
  const { kept, checkpoints } = choose([found(at(1, 2, 30n)), found(at(1, 1, 4n)), found(at(1, 1, 20n))]);
  expect(kept).toEqual([at(1, 1, 4n), at(1, 1, 20n), at(1, 2, 30n)].map(idText));
  expect(checkpoints[0]).toMatchObject({
    ...{ state: 'LIVE', verified: false, sizeBytes: 15, storedBytes: 10, fileCount: 2, committedAtMs: 7 },
    ...{ metrics: { loss: 2 }, rolledBack: false },
  });
});

test('one of a later lineage that cannot be used proves the rollback all the same', () => {
  const older = [found(at(1, 1, 1n)), found(at(1, 2, 2n)), found(at(1, 3, 3n))];
  const left = [at(1, 1, 1n), at(1, 2, 2n), at(1, 3, 3n)].map(idText);
  const kept = [left[0], `${left[1]} rolled back`, `${left[2]} rolled back`];
  expect(choose([...older, found(at(2, 4, 2n), [0], 'w is missing')]).kept).toEqual(kept);
  expect(choose(older, [at(2, 4, 2n)]).kept).toEqual(kept);
});

test('one whose files are not all there is left out, and says why', () => {
  const { kept, skipped } = choose([found(at(1, 1, 1n)), found(at(1, 1, 2n), [0], 'w is missing')]);
  expect(kept).toEqual([idText(at(1, 1, 1n))]);
  expect(skipped).toEqual(['version_2/1.1/manifest-0: w is missing']);
});

describe('two manifests of one id', () => {
  test('the one of later lives counts', () => {
    const { kept, checkpoints, skipped } = choose([found(at(1, 1, 1n), [0, 1]), found(at(1, 1, 1n), [0, 0])]);
    expect(kept).toHaveLength(1);
    expect(checkpoints[0]?.manifestKey).toMatch(/manifest-01$/);
    expect(skipped[0]).toMatch(/manifest-00: .*manifest-01 was built later/);
  });

  test('even if its files are not all there: the other was never committed', () => {
    expect(choose([found(at(1, 1, 1n), [1], 'gone'), found(at(1, 1, 1n), [0])]).kept).toEqual([]);
  });

  test.each([
    [
      [1, 0],
      [0, 1],
    ],
    [[0], [0]],
  ])('that contradict each other are both left out: %j and %j', (a, b) => {
    const { kept, skipped } = choose([found(at(1, 1, 1n), a), found(at(1, 1, 1n), b)]);
    expect([kept, skipped.length, skipped[0]]).toEqual([[], 2, expect.stringContaining('contradict')]);
  });
});

describe('in one lineage', () => {
  test('a version in several epochs was committed in the highest only', () => {
    const { kept, skipped } = choose([found(at(1, 1, 5n)), found(at(1, 3, 5n)), found(at(1, 2, 5n))]);
    expect(kept).toEqual([idText(at(1, 3, 5n))]);
    expect(skipped).toHaveLength(2);
  });

  test('what a later epoch has gone back behind was never committed; what lies below was', () => {
    const { kept } = choose([
      found(at(1, 1, 3n)),
      found(at(1, 1, 9n)),
      found(at(1, 2, 4n)),
      found(at(1, 2, 10n)),
    ]);
    expect(kept).toEqual([at(1, 1, 3n), at(1, 2, 4n), at(1, 2, 10n)].map(idText));
  });

  test('a manifest that cannot be read, or whose files are gone, proves as much', () => {
    expect(choose([found(at(1, 1, 9n))], [at(1, 2, 4n)]).kept).toEqual([]);
    expect(choose([found(at(1, 1, 9n)), found(at(1, 2, 4n), [0], 'gone')]).kept).toEqual([]);
    expect(choose([found(at(1, 1, 3n))], [at(1, 2, 4n)]).kept).toHaveLength(1);
  });
});

test('checkpoints of earlier lineages that are not below all of a later one are rolled back: versions on the path are unique', () => {
  const { kept } = choose(
    [1n, 2n, 3n, 4n]
      .map((version) => found(at(1, 1, version)))
      .concat(found(at(2, 1, 3n)), found(at(2, 2, 7n))),
  );
  expect(kept).toEqual([
    ...[at(1, 1, 1n), at(1, 1, 2n)].map(idText),
    ...[at(1, 1, 3n), at(1, 1, 4n)].map((id) => `${idText(id)} rolled back`),
    ...[at(2, 1, 3n), at(2, 2, 7n)].map(idText),
  ]);
});

test('the state: latest and top are the highest on the path, and no writer has joined', () => {
  const { checkpoints } = choose([found(at(1, 1, 90n)), found(at(2, 1, 5n)), found(at(2, 4, 7n))]);
  const state = rebuiltState(checkpoints, {
    lineage: 2,
    epoch: 9,
    attempt: 'drawn-x',
    txnId: 't',
    skippedManifests: ['k'],
    policy: undefined,
  });
  expect(state).toMatchObject({
    ...{ lineage: 2, epoch: 9, attempt: 'drawn-x', attemptDrawn: true, worldSize: 1 },
    ...{
      latest: at(2, 4, 7n),
      top: 7n,
      txnRing: ['t'],
      incarnations: {},
      policy: undefined,
      skippedManifests: ['k'],
    },
  });
  const empty = rebuiltState([], {
    lineage: 1,
    epoch: 1,
    attempt: 'drawn-x',
    txnId: 't',
    skippedManifests: [],
    policy: undefined,
  });
  expect([empty.latest, empty.top]).toEqual([undefined, -1n]);
});
