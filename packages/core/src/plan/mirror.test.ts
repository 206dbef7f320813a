import { describe, expect, test } from 'vitest';
import { isCheckpointError } from '../contract/index.ts';
import type { CatalogCheckpoint, FileRecord, State } from '../format/index.ts';
import {
  Content,
  differenceOf,
  isMirrorAttempt,
  mirrorAttempt,
  parseLeftPayload,
  payloadTag,
  selectForMirror,
} from './mirror.ts';
import { EMPTY_STATE } from './state.ts';

function checkpoint(version: bigint, changes: Partial<CatalogCheckpoint> = {}): CatalogCheckpoint {
  const id = { lineage: 1, epoch: 1, version };
  return { id, state: 'LIVE', rolledBack: false, ...changes } as CatalogCheckpoint;
}

const state: State = {
  ...EMPTY_STATE,
  checkpoints: [
    checkpoint(1n),
    checkpoint(2n, { state: 'RETIRING' }),
    checkpoint(3n, { state: 'QUARANTINED' }),
    checkpoint(4n, { rolledBack: true }),
    checkpoint(5n),
    checkpoint(6n),
  ],
  latest: { lineage: 1, epoch: 1, version: 6n },
};

const versions = (...args: Parameters<typeof selectForMirror>) =>
  selectForMirror(...args).map((each) => Number(each.id.version));

function codeOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (isCheckpointError(error)) return error.code;
    throw error;
  }
  return 'none';
}

describe('what is selected', () => {
  test('all that are live and on the path, ascending', () => {
    expect(versions(state, {})).toEqual([1, 5, 6]);
    expect(versions(EMPTY_STATE, {})).toEqual([]);
  });

  test('from a version on, the latest, or those that are named', () => {
    expect([versions(state, { since: 5 }), versions(state, { since: 2n })]).toEqual([
      [5, 6],
      [5, 6],
    ]);
    expect([versions(state, { latest: true }), versions(EMPTY_STATE, { latest: true })]).toEqual([[6], []]);
    expect([versions(state, { versions: [6, 1] }), versions(state, { versions: [] })]).toEqual([[1, 6], []]);
    expect(versions(state, { latest: false, since: 6 })).toEqual([6]);
  });

  test.each([2, 3, 4, 9])('version %i, which is not live there, is NotFound', (version) => {
    expect(codeOf(() => selectForMirror(state, { versions: [1, version] }))).toBe('NotFound');
  });

  test('two ways of choosing, or no version, are InvalidArgument', () => {
    expect(codeOf(() => selectForMirror(state, { latest: true, since: 1 }))).toBe('InvalidArgument');
    expect(codeOf(() => selectForMirror(state, { versions: [], since: 1 }))).toBe('InvalidArgument');
    expect(codeOf(() => selectForMirror(state, { since: 1.5 }))).toBe('InvalidArgument');
  });
});

describe('two checkpoints', () => {
  const OTHER = 'writer 0 has other files or empty directories';
  const file = { name: 'a', sizeBytes: 3, crc32c: 7, key: 'k1', partSizeBytes: 3, mode: 0, mtimeMs: 0 };
  const contentOf = (changes: object = {}, fileChanges: object = {}) => {
    const files = [{ ...file, ...fileChanges }] as FileRecord[];
    const said = {
      ...{ bases: [], suspicions: [], directories: [{ name: 'd', mtimeMs: 0 }] },
      ...{ metrics: { loss: 0.5, nought: 0 }, metadata: { note: 'x' } },
    };
    const given = { worldSize: 1, files, ...said, ...changes };
    const content = new Content(given.worldSize);
    content.add(0, given, given.files);
    return content;
  };

  test('say the same where only keys and the sizes of parts differ', () => {
    expect(differenceOf(contentOf(), contentOf({}, { key: 'k2', partSizeBytes: 1 }))).toBe(undefined);
  });

  test.each<[string, object, object, string]>([
    ['number of writers', { worldSize: 2 }, {}, '1 writers, not 2'],
    ['checksum', {}, { crc32c: 8 }, OTHER],
    ['size', {}, { sizeBytes: 4 }, OTHER],
    ['name', {}, { name: 'b' }, OTHER],
    ['file too few', { files: [] }, {}, OTHER],
    ['empty directory', { directories: [{ name: 'e' }] }, {}, OTHER],
    ['empty directory too few', { directories: [] }, {}, OTHER],
    ['metric', { metrics: { loss: 0.6, nought: 0 } }, {}, 'the metrics differ'],
    ['metric too few', { metrics: { loss: 0.5 } }, {}, 'the metrics differ'],
    ['sign of nought', { metrics: { loss: 0.5, nought: -0 } }, {}, 'the metrics differ'],
    ['metadata', { metadata: { other: 'x' } }, {}, 'the metadata differ'],
  ])('with another %s differ', (_, changes, fileChanges, difference) => {
    expect(differenceOf(contentOf(), contentOf(changes, fileChanges))).toBe(difference);
  });

  test('say the same however many records their files lie in', () => {
    const directories = ['d', 'e'].map((name) => ({ name, mtimeMs: 0 }));
    const said = { bases: [], suspicions: [], metrics: {}, metadata: {}, directories };
    const files = ['a', 'b', 'c'].map((name) => ({ ...file, name })) as FileRecord[];
    const [one, two] = [new Content(1), new Content(1)];
    one.add(0, said, files);
    two.add(0, said, files.slice(0, 1));
    two.add(0, said, files.slice(1));
    expect(differenceOf(one, two)).toBe(undefined);
  });
});

test('an attempt is that of mirrors of one run in one lineage, and of no other', () => {
  const origin = { runId: 'a'.repeat(32), lineage: 1 };
  const attempt = mirrorAttempt(origin, 'ff');
  expect(isMirrorAttempt(attempt, origin)).toBe(true);
  expect(isMirrorAttempt(attempt, { ...origin, lineage: 11 })).toBe(false);
  expect(isMirrorAttempt(attempt, { ...origin, runId: 'b'.repeat(32) })).toBe(false);
  expect(isMirrorAttempt('job-1', origin)).toBe(false);
});

test('a payload of a mirror is known by its nonce, and by nothing less', () => {
  const tag = payloadTag({ manifestSha256: new Uint8Array(32).fill(0xab) });
  expect(tag).toBe('ab'.repeat(8));
  const key = (nonce: string) => `version_3/1.2/4.5-${nonce}/layers/a.bin`;
  const whole = key(`${tag}${'0'.repeat(16)}`);
  expect(parseLeftPayload(whole, 9)).toEqual({
    key: whole,
    writer: 4,
    name: 'layers/a.bin',
    sizeBytes: 9,
    tag,
  });
  expect(parseLeftPayload(key(tag), 9)).toBe(null);
  expect(parseLeftPayload('version_3/1.2/receipts/4.5.json', 9)).toBe(null);
});
