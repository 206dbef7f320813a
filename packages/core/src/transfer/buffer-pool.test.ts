import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BufferPool, type PooledBuffer } from './buffer-pool.ts';

const KIB = 1024;
const PAGE = 4096;
const WASM_PAGE = 64 * KIB;
/** 256 KiB with slots of 32 KiB: four in the upper half. */
const newPool = () => new BufferPool(4 * WASM_PAGE, 32 * KIB);

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

function watch(promise: Promise<PooledBuffer>) {
  const state: { loan?: PooledBuffer; error?: unknown } = {};
  promise.then(
    (loan) => {
      state.loan = loan;
    },
    (error) => {
      state.error = error;
    },
  );
  return state;
}

describe('transit loans', () => {
  test('have the size asked for, begin on pages, lowest first, in one memory that is never replaced', async () => {
    const pool = newPool();
    const first = await pool.acquire(1);
    const second = await pool.acquire(PAGE + 1);
    const third = await pool.acquire(100);
    expect([first, second, third].map(({ bytes }) => [bytes.byteOffset, bytes.byteLength])).toEqual([
      [0, 1],
      [PAGE, PAGE + 1],
      [3 * PAGE, 100],
    ]);
    expect(second.bytes.buffer).toBe(first.bytes.buffer);
    expect(pool.freeBytes).toBe(pool.totalBytes - 4 * PAGE);
    second.release();
    const again = await pool.acquire(2 * PAGE);
    expect(again.bytes.byteOffset).toBe(PAGE);
    expect(pool.peakBytes).toBe(4 * PAGE);
  });

  test('no memory is taken before the first loan', () => {
    expect(() => new BufferPool(65_535 * WASM_PAGE, WASM_PAGE).freeBytes).not.toThrow();
  });

  test('a size that can never be lent is a bug and says so', async () => {
    const pool = newPool();
    for (const size of [0, -1, Number.NaN, 2 * WASM_PAGE + 1]) {
      await expect(pool.acquire(size)).rejects.toThrow('a loan is of 1 to 131072 bytes');
    }
    expect(() => new BufferPool(100, 1)).toThrow('whole pages');
    expect(() => new BufferPool(WASM_PAGE, WASM_PAGE)).toThrow('more than half');
  });

  test('at once or not at all: never before those who wait, nor from a pool that is closed', async () => {
    const pool = newPool();
    const half = await pool.acquire(2 * WASM_PAGE);
    const most = pool.acquireNow(2 * WASM_PAGE - PAGE);
    expect(pool.acquireNow(2 * PAGE)).toBeNull();
    const waiting = pool.acquire(2 * PAGE);
    expect(pool.acquireNow(PAGE)).toBeNull(); // it would fit
    most?.release();
    (await waiting).release();
    const fits = pool.acquireNow(PAGE);
    expect(fits?.bytes.byteLength).toBe(PAGE);
    fits?.release();
    half.release();
    pool.close();
    expect(pool.acquireNow(PAGE)).toBeNull();
  });

  test('giving back twice is a bug and says so', async () => {
    const pool = newPool();
    const loan = await pool.acquire(10);
    loan.release();
    expect(() => loan.release()).toThrow('given back twice');
    expect(() => loan.keepFor(Promise.resolve())).toThrow('cannot be kept');
    expect(pool.freeBytes).toBe(pool.totalBytes);
  });

  test('first come, first served: a large loan at the head is not overtaken by small ones that would fit', async () => {
    const pool = newPool();
    const half = 2 * WASM_PAGE;
    const [a, b] = [await pool.acquire(half), await pool.acquire(half - PAGE)];
    const large = watch(pool.acquire(half));
    const small = watch(pool.acquire(PAGE));
    await settled();
    expect([large, small]).toEqual([{}, {}]);
    b.release();
    await settled();
    expect([large.loan?.bytes.byteOffset, small.loan]).toEqual([half, undefined]);
    a.release();
    await settled();
    expect(small.loan?.bytes.byteOffset).toBe(0);
  });

  test('a waiting request ends at its signal, and the one behind it is served', async () => {
    const pool = newPool();
    const half = 2 * WASM_PAGE;
    const loans = [await pool.acquire(half), await pool.acquire(half - PAGE)];
    const stop = new AbortController();
    const large = watch(pool.acquire(half, stop.signal));
    const small = watch(pool.acquire(PAGE));
    stop.abort();
    await settled();
    expect(large.error).toMatchObject({ code: 'Aborted' });
    expect(small.loan).toBeDefined();
    for (const loan of loans) loan.release();
    small.loan?.release();
    expect(pool.freeBytes).toBe(pool.totalBytes);
    await expect(pool.acquire(1, stop.signal)).rejects.toMatchObject({ code: 'Aborted' });
  });
});

describe('stream slots', () => {
  test('lie in the upper half, and never take the lower one', async () => {
    const pool = newPool();
    const slots = await Promise.all(Array.from({ length: 4 }, () => pool.acquireSlot()));
    expect(slots.map(({ bytes }) => bytes.byteOffset)).toEqual([128, 160, 192, 224].map((kib) => kib * KIB));
    const fifth = watch(pool.acquireSlot());
    await settled();
    expect(fifth).toEqual({});
    const transit = await pool.acquire(2 * WASM_PAGE);
    expect(transit.bytes.byteOffset).toBe(0);
    slots[2]?.release();
    await settled();
    expect(fifth.loan?.bytes.byteOffset).toBe(192 * KIB);
  });

  test('transit loans use the upper half until a stream waits for it', async () => {
    const pool = newPool();
    const [low, high] = [await pool.acquire(2 * WASM_PAGE), await pool.acquire(2 * WASM_PAGE)];
    const slot = watch(pool.acquireSlot());
    const next = watch(pool.acquire(2 * WASM_PAGE));
    await settled();
    expect([slot, next]).toEqual([{}, {}]);
    high.release();
    await settled();
    expect(slot.loan).toBeDefined();
    expect(next).toEqual({});
    low.release();
    await settled();
    expect(next.loan?.bytes.byteOffset).toBe(0);
  });

  test('a stream that waits is not starved by transit loans that would each take a bit of its slot', async () => {
    const pool = newPool();
    const low = await pool.acquire(2 * WASM_PAGE);
    // 20 KiB each: returning a single one frees no slot of 32 KiB.
    const high = await Promise.all(Array.from({ length: 6 }, () => pool.acquire(20 * KIB)));
    const slot = watch(pool.acquireSlot());
    const next = Array.from({ length: 6 }, () => watch(pool.acquire(20 * KIB)));
    high[0]?.release();
    await settled();
    high[1]?.release();
    await settled();
    expect(slot.loan?.bytes.byteOffset).toBe(128 * KIB);
    low.release();
    await settled();
    expect(next.every(({ loan }) => loan !== undefined)).toBe(true);
  });

  test('unfilled slots never block a transit loan of half the pool', async () => {
    const pool = newPool();
    const filler = await pool.acquire(PAGE);
    await Promise.all(Array.from({ length: 4 }, () => pool.acquireSlot()));
    watch(pool.acquireSlot());
    const transit = watch(pool.acquire(2 * WASM_PAGE));
    filler.release();
    await settled();
    expect(transit.loan).toBeDefined();
  });
});

describe('calls that outlive their owner', () => {
  test('a kept buffer comes back only when the call has settled and its owner gave it back', async () => {
    const pool = newPool();
    for (const order of ['call first', 'owner first']) {
      const loan = await pool.acquire(PAGE);
      const { promise, reject } = Promise.withResolvers<void>();
      loan.keepFor(promise);
      if (order === 'owner first') loan.release();
      else reject(new Error('late'));
      await settled();
      expect(pool.freeBytes).toBe(pool.totalBytes - PAGE);
      if (order === 'owner first') reject(new Error('late'));
      else loan.release();
      await settled();
      expect(pool.freeBytes).toBe(pool.totalBytes);
    }
  });

  test('a request that could never be served because of them is refused instead of waiting for ever', async () => {
    const pool = newPool();
    const never = new Promise(() => undefined);
    const half = 2 * WASM_PAGE;
    const loans = [await pool.acquire(half), await pool.acquire(half)];
    const large = watch(pool.acquire(half));
    const small = watch(pool.acquire(PAGE));
    loans[0]?.keepFor(never);
    loans[0]?.release();
    await settled();
    expect([large, small]).toEqual([{}, {}]); // the other half is free
    loans[1]?.keepFor(never);
    loans[1]?.release();
    await settled();
    for (const state of [large, small])
      expect(state.error).toMatchObject({ code: 'Unavailable', status: 'exhausted' });
    await expect(pool.acquire(1)).rejects.toThrow(
      '262144 bytes of the budget (setting bufferBytes) are held by calls',
    );
    await expect(pool.acquireSlot()).rejects.toThrow('open a new manager');
  });
});

describe('close', () => {
  test('rejects pending and future requests; loans can still be given back', async () => {
    const pool = newPool();
    const loans = [await pool.acquire(2 * WASM_PAGE), await pool.acquire(2 * WASM_PAGE)];
    const states = [watch(pool.acquire(1)), watch(pool.acquireSlot())];
    pool.close();
    await settled();
    for (const state of states) expect(state.error).toMatchObject({ code: 'Aborted' });
    await expect(pool.acquire(1)).rejects.toMatchObject({
      code: 'Aborted',
      message: 'the manager was closed',
    });
    for (const loan of loans) loan.release();
    expect(pool.freeBytes).toBe(pool.totalBytes);
    pool.close();
  });
});

test('any sequence of loans: none overlap, the budget holds, no request starves, and all memory comes back', async () => {
  const step = fc.record({
    kind: fc.constantFrom('acquire', 'acquire', 'slot', 'release', 'abort'),
    size: fc.integer({ min: 1, max: 2 * WASM_PAGE }),
    pick: fc.nat(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const pool = newPool();
      const live = new Set<PooledBuffer>();
      const waiting = new Set<AbortController>();
      const open = (acquire: (signal: AbortSignal) => Promise<PooledBuffer>) => {
        const stop = new AbortController();
        waiting.add(stop);
        acquire(stop.signal)
          .then(
            (loan) => live.add(loan),
            () => undefined,
          )
          .finally(() => waiting.delete(stop));
      };
      const release = (pick: number) => {
        const loan = [...live][pick % Math.max(1, live.size)];
        if (!loan) return;
        live.delete(loan);
        loan.release();
      };
      for (const { kind, size, pick } of steps) {
        if (kind === 'acquire') open((signal) => pool.acquire(size, signal));
        else if (kind === 'slot') open((signal) => pool.acquireSlot(signal));
        else if (kind === 'release') release(pick);
        else [...waiting][pick % Math.max(1, waiting.size)]?.abort();
        await settled();
        expectApart([...live], pool);
      }
      // Requests that wait are served once the loans come back: none starves.
      for (let round = 0; (live.size > 0 || waiting.size > 0) && round < 200; round += 1) {
        release(0);
        await settled();
      }
      expect([live.size, waiting.size, pool.freeBytes]).toEqual([0, 0, pool.totalBytes]);
    }),
    { numRuns: 100 },
  );
});

function expectApart(loans: PooledBuffer[], pool: BufferPool): void {
  const ranges = loans.map(({ bytes }) => [bytes.byteOffset, bytes.byteOffset + bytes.byteLength] as const);
  ranges.sort((a, b) => a[0] - b[0]);
  for (const [index, [start, end]] of ranges.entries()) {
    expect(start % PAGE).toBe(0);
    expect(end).toBeLessThanOrEqual(ranges[index + 1]?.[0] ?? pool.totalBytes);
  }
  const used = loans.reduce((sum, { bytes }) => sum + Math.ceil(bytes.byteLength / PAGE) * PAGE, 0);
  expect(pool.freeBytes).toBe(pool.totalBytes - used);
}
