import { expect, test } from 'vitest';
import { SeededRandom } from './seeded-random.ts';

function draw(random: SeededRandom): unknown[] {
  return [
    random.hex(32),
    random.fraction(),
    random.integer(10),
    [...random.bytes(5)],
    random.shuffle([1, 2, 3, 4]),
  ];
}

test('the same seed gives the same numbers, and another gives others', () => {
  expect(draw(new SeededRandom(42))).toEqual(draw(new SeededRandom(42)));
  expect(draw(new SeededRandom(42))).not.toEqual(draw(new SeededRandom(43)));
  // All bits of seeds above 2^32 count.
  expect(draw(new SeededRandom(42))).not.toEqual(draw(new SeededRandom(42 + 2 ** 32)));
});

test('numbers are those they have always been: a seed kept from an old failure still replays it', () => {
  const random = new SeededRandom(1);
  expect([random.hex(16), random.uint32(), random.integer(1000)]).toMatchInlineSnapshot(`
    [
      "904ccb1995c9db5c",
      3847892949,
      946,
    ]
  `);
});

test('hex has as many digits as asked for, fraction lies in [0, 1), bytes have the count asked for', () => {
  const random = new SeededRandom(7);
  for (const digits of [0, 1, 7, 8, 9, 32])
    expect(random.hex(digits)).toMatch(new RegExp(`^[0-9a-f]{${digits}}$`));
  for (let i = 0; i < 1000; i++) {
    const fraction = random.fraction();
    expect(fraction >= 0 && fraction < 1).toBe(true);
  }
  for (const count of [0, 1, 3, 4, 5]) expect(random.bytes(count).byteLength).toBe(count);
});

test('all values come, about equally often', () => {
  const random = new SeededRandom(3);
  const counts = new Array<number>(8).fill(0);
  for (let i = 0; i < 8000; i++) counts[random.integer(8)]!++;
  for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(150);
  const orders = new Set(Array.from({ length: 200 }, () => random.shuffle([1, 2, 3]).join('')));
  expect(orders.size).toBe(6);
  expect(new Set(Array.from({ length: 50 }, () => random.pick(['a', 'b'])))).toEqual(new Set(['a', 'b']));
});

test('a fork draws numbers of its own, the same for the same seed', () => {
  const [a, b] = [new SeededRandom(5), new SeededRandom(5)];
  const forks = [a.fork(), b.fork()] as const;
  forks[0].hex(1000);
  expect(a.hex(32)).toBe(b.hex(32));
  expect(new SeededRandom(5).fork().hex(8)).toBe(forks[1].hex(8));
  const names = Array.from({ length: 100 }, () => a.fork().hex(16));
  expect(new Set(names).size).toBe(100);
});
