import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compareUtf8 } from '../contract/object-key.ts';
import { encodeRecord, type FileRecord, type Receipt } from '../format/index.ts';
import {
  countOf,
  fileListRef,
  listProblem,
  mayHold,
  orderProblem,
  receiptRef,
  referenceProblem,
  sliceFiles,
} from './file-lists.ts';

const id = { lineage: 1, epoch: 2, version: 3n };
const digest = new Uint8Array(32).fill(7);

function fileOf(name: string, sizeBytes = 4): FileRecord {
  const partCrc32c = new Uint8Array(sizeBytes === 0 ? 0 : 4);
  const parts = { partSizeBytes: sizeBytes, partCrc32c };
  const key = `version_3/1.2/0.0-ab/${name}`;
  return {
    name,
    key,
    sizeBytes,
    crc32c: 2 ** 32 - 1,
    ...parts,
    blake3: new Uint8Array(32),
    mode: 0o777,
    mtimeMs: 0,
  };
}

function receiptOf(files: readonly FileRecord[], changes: Partial<Receipt> = {}): Receipt {
  return {
    ...{ id, writer: 0, incarnation: 0, worldSize: 1, files, fileLists: [], directories: [] },
    ...{ bases: [], metrics: {}, metadata: {}, suspicions: [] },
    ...changes,
  };
}

const names = fc.uniqueArray(
  fc.constantFrom('a', 'a/b', 'ab', 'b', 'é', 'ü/x', '🙂', '🙂/a', 'zz', 'layer/1', 'layer/10', '\uffee'),
  { minLength: 1, maxLength: 8 },
);

describe('files in lists', () => {
  test('are all there in their order, and no list takes more than it may', () => {
    const files = Array.from({ length: 1000 }, (_, index) =>
      fileOf(`part-${String(index).padStart(4, '0')}`),
    );
    const slices = sliceFiles(files, 10_000);
    expect(slices.flat()).toEqual(files);
    expect(slices.length).toBeGreaterThan(10);
    for (const slice of slices) {
      const list = { id, writer: 0, incarnation: 0, files: slice };
      expect(encodeRecord('file-list', list).bytes.length).toBeLessThan(10_000 + 300);
    }
  });

  test('that are too large by themselves have a list each', () => {
    const files = ['a', 'b', 'c'].map((name) => fileOf(name));
    expect(sliceFiles(files, 1)).toEqual(files.map((file) => [file]));
    expect(sliceFiles([], 1)).toEqual([]);
  });

  test('are refused where they are others than the receipt says', () => {
    const files = [fileOf('a'), fileOf('b')];
    const ref = fileListRef(files, digest);
    expect(ref).toEqual({ sha256: digest, fileCount: 2, sizeBytes: 8, firstName: 'a', lastName: 'b' });
    expect(listProblem(ref, files)).toBe(undefined);
    for (const others of [
      [fileOf('a')],
      [fileOf('a'), fileOf('b', 5)],
      [fileOf('0'), fileOf('b')],
      [fileOf('a'), fileOf('c')],
    ]) {
      expect(listProblem(ref, others)).toBe('it has other files than its receipt says');
    }
  });
});

describe('what a manifest says of a receipt', () => {
  test('counts files in the receipt and in its lists', () => {
    const lists = [fileListRef([fileOf('a'), fileOf('b')], digest), fileListRef([fileOf('c')], digest)];
    expect(countOf(receiptOf([fileOf('x')]))).toEqual({ fileCount: 1, sizeBytes: 4 });
    const directories = ['x', 'y'].map((name) => ({ name, mtimeMs: 0 }));
    const receipt = receiptOf([], { fileLists: lists, directories });
    expect(receiptRef({ receipt, sha256: digest }, 1)).toEqual({
      ...{ incarnation: 0, sha256: digest, fileCount: 3, sizeBytes: 12, firstName: 'a', lastName: 'c' },
      directoryCount: 2,
    });
    // An older writer does not count directories.
    const older = { ...receiptRef({ receipt, sha256: digest }, 1), directoryCount: 0 };
    expect(referenceProblem({ id, worldSize: 1 }, 0, older, receipt)).toBe(undefined);
  });

  test('leaves out no writer that has a file of the name, however short the names are cut', () => {
    fc.assert(
      fc.property(
        names,
        fc.constantFrom(1, 1000, 65_536, 131_072, 600_000),
        fc.nat(3),
        (some, worldSize, cut) => {
          const files = [...some].sort(compareUtf8).map((name) => fileOf(name));
          const ref = receiptRef({ receipt: receiptOf(files, { worldSize }), sha256: digest }, worldSize);
          expect(Buffer.byteLength(ref.firstName)).toBeLessThanOrEqual(524_288 / worldSize);
          expect(ref.firstName.isWellFormed() && ref.lastName.isWellFormed()).toBe(true);
          for (const { name } of files) {
            const start = Array.from(name).slice(0, cut).join('');
            expect([mayHold(ref, name), mayHold(ref, start)]).toEqual([true, true]);
          }
        },
      ),
    );
  });

  test.each([
    ['b', true],
    ['c', true],
    ['d/e', true],
    ['a', false],
    ['bz', true],
    ['e', false],
    ['', true],
  ])('says whether a name from b to d may begin with "%s": %s', (start, isPossible) => {
    expect(mayHold({ fileCount: 2, firstName: 'b', lastName: 'd' }, start)).toBe(isPossible);
    expect(mayHold({ fileCount: 0, firstName: '', lastName: '' }, start)).toBe(false);
  });

  test.each<[string, Partial<Receipt>, string]>([
    ['another checkpoint', { id: { ...id, version: 4n } }, 'it is of writer 0.0 of'],
    ['another writer', { writer: 1 }, 'it is of writer 1.0 of'],
    ['another life', { incarnation: 1 }, 'it is of writer 0.1 of'],
    ['another world', { worldSize: 2 }, 'it says 2 writers, not 1'],
    ['other files', { files: [fileOf('a')] }, 'it has other files than the manifest says'],
    ['another size', { files: [fileOf('a'), fileOf('b', 9)] }, 'it has other files than the manifest says'],
    ['files out of order', { files: [fileOf('a'), fileOf('a'), fileOf('b', 0)] }, '"a" is not in the order'],
  ])('is refused of a receipt of %s', (_, changes, problem) => {
    const receipt = receiptOf([fileOf('a'), fileOf('a/c', 0), fileOf('b')]);
    const isOfThree = (changes.files?.length ?? 3) === 3;
    const said = changes.files && isOfThree ? { ...receipt, ...changes } : receipt;
    const ref = receiptRef({ receipt: said, sha256: digest }, 1);
    const manifest = { id, worldSize: 1 };
    expect(referenceProblem(manifest, 0, ref, { ...receipt, ...changes })).toContain(problem);
    expect(referenceProblem(manifest, 0, receiptRef({ receipt, sha256: digest }, 1), receipt)).toBe(
      undefined,
    );
  });
});

test('lists of one receipt follow each other by their names', () => {
  const list = (first: string, last: string) => fileListRef([fileOf(first), fileOf(last)], digest);
  const problemOf = (...fileLists: Receipt['fileLists']) => orderProblem(receiptOf([], { fileLists }));
  expect(problemOf(list('a', 'b'), list('c', 'd'))).toBe(undefined);
  expect(problemOf(list('a', 'c'), list('b', 'd'))).toContain('"b" is not in the order');
  expect(problemOf(list('a', 'b'), list('b', 'd'))).toContain('"b" is not in the order');
  expect(problemOf(list('b', 'a'))).toContain('"b" is not in the order');
});
