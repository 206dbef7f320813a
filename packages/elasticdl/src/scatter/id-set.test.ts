import fc from 'fast-check';
import { expect, test } from 'vitest';
import { HIGH, LOW, wordsOf } from '../id-halves.ts';
import { BitIdSet, HashIdSet, hashOfId, type IdSet, idAsNumber } from './id-set.ts';

function halves(id: bigint): [number, number] {
  const words = wordsOf(BigInt64Array.of(id));
  return [words[LOW]! | 0, words[HIGH]! | 0];
}

/** Compares each answer of the set with that of a JavaScript set. */
function agrees(set: IdSet, ids: readonly bigint[]): void {
  const seen = new Set<bigint>();
  for (const id of ids) {
    expect(set.add(...halves(id))).toBe(!seen.has(id));
    seen.add(id);
  }
}

const edges = [0n, -1n, 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, -(2n ** 31n), -(2n ** 63n), 2n ** 63n - 1n];

test('HashIdSet: any ids, 0 and the edges of the halves among them; nothing is left after clear', () => {
  const id = fc.oneof(
    fc.constantFrom(...edges),
    fc.bigInt({ min: -9n, max: 9n }),
    fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n),
  );
  fc.assert(
    fc.property(fc.array(id, { maxLength: 60 }), fc.integer(), (ids, seed) => {
      const set = new HashIdSet(64, seed, new Int32Array(200));
      agrees(set, ids);
      set.clear();
      agrees(set, ids);
    }),
  );
});

test.each<[string, (at: number) => [number, number]]>([
  ['lower halves', (at) => [7, at]],
  ['lower bits', (at) => [at << 16, -1]],
  ['upper bits', (at) => [at, 0]],
])('ids whose %s are alike are spread all the same', (_, idOf) => {
  const slotCount = 2 ** 17;
  const slots = new Set<number>();
  for (let at = 0; at < slotCount / 2; at++) slots.add(hashOfId(...idOf(at), 12_345) & (slotCount - 1));
  // With half as many ids as slots, random placement takes 39 % of the slots.
  expect(slots.size / slotCount).toBeGreaterThan(0.38);
});

test('BitIdSet: a range across zero, and one whose halves differ', () => {
  fc.assert(
    fc.property(
      fc.bigInt({ min: -(2n ** 52n), max: 2n ** 52n }),
      fc.array(fc.bigInt({ min: 0n, max: 99n }), { maxLength: 60 }),
      (first, offsets) => {
        const set = new BitIdSet(Number(first), Number(first + 99n), new Int32Array(10));
        agrees(
          set,
          offsets.map((offset) => first + offset),
        );
        set.clear();
        expect(set.add(...halves(first))).toBe(true);
      },
    ),
  );
});

test('BitIdSet takes a bit for each id of its range; beyond 2^53 it is not exact, and takes no room that there is', () => {
  expect(BitIdSet.sizeBytes(-16, 47)).toBe(8);
  expect(BitIdSet.sizeBytes(idAsNumber(...halves(2n ** 60n)), idAsNumber(...halves(2n ** 60n + 1n)))).toBe(
    Number.POSITIVE_INFINITY,
  );
  expect(BitIdSet.sizeBytes(-(2 ** 60), 0)).toBe(Number.POSITIVE_INFINITY);
});
