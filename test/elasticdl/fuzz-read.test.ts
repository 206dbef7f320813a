/**
 * Damaged files: for any bytes, decoding ends with a shard or a Holdfast error. It never allocates
 * memory by sizes that the file only claims.
 */

import { decodeShard, type Form } from '@holdfast/elasticdl';
import fc from 'fast-check';
import { afterEach, expect, test, vi } from 'vitest';
import { type Bytes, FORMS, mixed, packed, writtenShard } from './written-shards.ts';

type Change = (bytes: Bytes) => Bytes;

const at = fc.nat(2000);
const byte = fc.oneof(fc.nat(255), fc.constantFrom(0, 1, 0x7f, 0x80, 0xff, 0x0a, 0x12, 0x1a, 0x22, 0x2a));

/** Includes lengths and counts that exceed the file. */
const anyChange: fc.Arbitrary<Change> = fc.oneof(
  fc.tuple(at, byte).map(
    ([place, value]): Change =>
      (bytes) =>
        bytes.with(place % bytes.length, value),
  ),
  fc.tuple(at, fc.nat(7)).map(
    ([place, bit]): Change =>
      (bytes) =>
        bytes.with(place % bytes.length, (bytes[place % bytes.length] ?? 0) ^ (1 << bit)),
  ),
  at.map(
    (end): Change =>
      (bytes) =>
        bytes.slice(0, 1 + (end % bytes.length)),
  ),
  fc.tuple(at, fc.uint8Array({ minLength: 1, maxLength: 12 })).map(
    ([place, more]): Change =>
      (bytes) =>
        Uint8Array.from([
          ...bytes.slice(0, place % bytes.length),
          ...more,
          ...bytes.slice(place % bytes.length),
        ]),
  ),
  fc.tuple(at, fc.integer({ min: 1, max: 12 })).map(
    ([place, count]): Change =>
      (bytes) => {
        const rest = bytes.filter(
          (_, index) => index < place % bytes.length || index >= (place % bytes.length) + count,
        );
        return rest.length > 0 ? rest : bytes;
      },
  ),
  fc.tuple(at, at, fc.nat(40)).map(
    ([from, to, count]): Change =>
      (bytes) => {
        const copy = bytes.slice();
        copy.copyWithin(to % bytes.length, from % bytes.length, (from % bytes.length) + count);
        return copy;
      },
  ),
);

let allocatedBytes = 0;

/** An array type that counts the requested length. */
function counted<T extends Uint8ArrayConstructor | BigInt64ArrayConstructor | Uint32ArrayConstructor>(
  type: T,
): T {
  return new Proxy(type, {
    construct(target, args, newTarget) {
      if (typeof args[0] === 'number') allocatedBytes += args[0] * target.BYTES_PER_ELEMENT;
      return Reflect.construct(target, args, newTarget);
    },
  });
}

afterEach(() => vi.unstubAllGlobals());

async function decodeDamaged(bytes: Bytes): Promise<void> {
  allocatedBytes = 0;
  try {
    const shard = await decodeShard(bytes, { name: 'f' });
    for (const { ids, values } of shard.tables.values()) {
      expect(ids.length).toBeLessThanOrEqual(bytes.length);
      expect(values.length).toBeLessThanOrEqual(bytes.length);
    }
  } catch (error) {
    expect(error).toMatchObject({
      name: 'CheckpointError',
      code: expect.stringMatching(/^(Corrupt|InvalidArgument)$/),
    });
    expect((error as Error).message.length).toBeLessThan(1000);
  }
  // A one-byte id takes eight bytes in memory, and repeated ids are sorted in a copy.
  expect(allocatedBytes).toBeLessThan(1_048_576 + 32 * bytes.length);
}

test.each(FORMS)('%s, damaged', async (form: Form) => {
  vi.stubGlobal('Uint8Array', counted(Uint8Array));
  vi.stubGlobal('BigInt64Array', counted(BigInt64Array));
  vi.stubGlobal('Uint32Array', counted(Uint32Array));
  const valid = [writtenShard(form, packed), writtenShard(form, mixed)].map((bytes) => new Uint8Array(bytes));
  for (const bytes of valid) await decodeDamaged(bytes);
  expect(allocatedBytes).toBeGreaterThan(0);
  const changes = fc.array(anyChange, { minLength: 1, maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...valid), changes, (bytes, all) =>
      decodeDamaged(all.reduce<Bytes>((sofar, change) => change(sofar), bytes)),
    ),
    { numRuns: 150 },
  );
});

test('bytes of any kind', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 60 }), (bytes) => decodeDamaged(bytes)),
    { numRuns: 500 },
  );
});
