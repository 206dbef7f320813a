import { afterEach, describe, expect, test } from 'vitest';
import { silentLogger, workersOf } from '../contract/index.ts';
import { blake3, crc32c } from '../format/checksum.ts';
import { CHECKSUM_SERVICE, preferredWorkerCount } from '../workers/index.ts';
import { BufferPool } from './buffer-pool.ts';
import { OrderedHash } from './ordered-hash.ts';
import { Workers } from './workers.ts';

const MIB = 1024 * 1024;
const open: Workers[] = [];
afterEach(() => {
  for (const workers of open.splice(0)) workers.close();
});

/** Workers, and bytes in memory that they share. */
async function started(count = 2) {
  const workers = new Workers({ workers: count }, silentLogger);
  open.push(workers);
  const pool = new BufferPool(16 * MIB, MIB, workers);
  const loan = await pool.acquire(MIB);
  const { bytes } = loan;
  bytes.fill(7);
  await workers.expect(1);
  return { workers, pool, loan, bytes };
}

describe('Workers', () => {
  test('checksums and hashes are the same as here', async () => {
    const { workers, bytes } = await started();
    expect(workersOf(bytes)?.count).toBe(2);
    const found = await Promise.all(Array.from({ length: 5 }, () => workers.crc32c(bytes)));
    expect(found).toEqual(Array(5).fill(crc32c(bytes)));
    expect(await workers.blake3(bytes)).toEqual(blake3(bytes));
    const hash = workers.startHash();
    await hash.update(bytes.subarray(0, 1000));
    await hash.update(bytes.subarray(1000));
    expect(await hash.digest()).toEqual(blake3(bytes));
  });

  test('small parts, and memory that is not shared, are hashed here', async () => {
    const { workers, bytes } = await started();
    for (const own of [bytes.subarray(0, 100), new Uint8Array(MIB)]) {
      expect(await workers.crc32c(own)).toBe(crc32c(own));
      expect(await workers.blake3(own)).toEqual(blake3(own));
    }
  });

  test('they do not start before they pay, and never if the setting is 0', async () => {
    const workers = new Workers({ workers: -1 }, silentLogger, 2);
    open.push(workers);
    await workers.expect(255 * MIB);
    expect([workers.mayStart, workers.isRunning]).toEqual([true, false]);
    await workers.expect(MIB);
    expect(workers.isRunning).toBe(true);
    const none = new Workers({ workers: 0 }, silentLogger);
    await none.expect(1024 * MIB);
    expect([none.mayStart, none.isRunning]).toEqual([false, false]);
    expect(await none.crc32c(new Uint8Array(9))).toBe(crc32c(new Uint8Array(9)));
  });

  test('threads that have ended are replaced, and nothing is computed wrongly meanwhile', async () => {
    const { workers, bytes } = await started(1);
    await workers.crc32c(bytes);
    const hash = workers.startHash();
    await hash.update(bytes);
    const exit = new URL('data:text/javascript,export const serve = () => process.exit()');
    const port = workersOf(bytes)?.connect(0, exit);
    const ended = new Promise<void>((resolve) => void port?.on('close', () => resolve()));
    expect(await workers.crc32c(bytes)).toBe(crc32c(bytes));
    await ended;
    expect(await workers.crc32c(bytes)).toBe(crc32c(bytes));
    expect(await workers.blake3(bytes)).toEqual(blake3(bytes));
    expect(await hash.digest()).toBeUndefined();
    const hashAgain = async () => {
      const next = workers.startHash();
      await next.update(bytes);
      return next.digest();
    };
    await expect.poll(hashAgain, { timeout: 20_000 }).toEqual(blake3(bytes));
  });

  test('two managers share the threads, and the last to close ends them', async () => {
    const [first, second] = [await started(), await started()];
    expect(workersOf(first.bytes)).toBe(workersOf(second.bytes));
    const port = workersOf(first.bytes)?.connect(0, CHECKSUM_SERVICE);
    let hasEnded = false;
    const ended = new Promise<void>((resolve) => {
      port?.on('close', () => {
        hasEnded = true;
        resolve();
      });
    });
    first.workers.close();
    expect(workersOf(first.bytes)).toBeUndefined();
    expect(await second.workers.crc32c(second.bytes)).toBe(crc32c(second.bytes));
    expect(hasEnded).toBe(false);
    second.workers.close();
    await ended;
  });

  test('memory is used again by the next pool of its size, once no call has it, while there are threads', async () => {
    const [first, other] = [await started(), await started()];
    const { buffer } = first.bytes;
    first.workers.close();
    first.pool.close();
    expect((await started()).bytes.buffer).not.toBe(buffer);
    first.loan.release();
    expect(other.bytes.buffer).not.toBe(buffer);
    const next = await started();
    expect(next.bytes.buffer).toBe(buffer);
    expect(workersOf(next.bytes)?.count).toBe(2);
    expect(await next.workers.crc32c(next.bytes)).toBe(crc32c(next.bytes));
    // The last of them ends the threads, and nothing is kept for pools to come.
    next.loan.release();
    for (const workers of open.splice(0)) workers.close();
    next.pool.close();
    expect((await started()).bytes.buffer).not.toBe(buffer);
  });

  test('memory of which no thread was told is not kept', async () => {
    await started();
    const workers = new Workers({ workers: -1 }, silentLogger);
    const taken = workers.take(16 * MIB);
    workers.close();
    workers.giveBack(taken);
    expect((await started()).bytes.buffer).not.toBe(taken);
  });

  test('closed while they start: they are ended', async () => {
    const workers = new Workers({ workers: 2 }, silentLogger);
    const starting = workers.expect(1);
    workers.close();
    await starting;
    expect(workers.isRunning).toBe(false);
  });
});

test('OrderedHash in a worker: parts in any order, and none after it does not pay', async () => {
  const { workers, bytes } = await started();
  let pays = true;
  const hash = new OrderedHash(workers, () => pays);
  const later = new Promise<{ bytes: Uint8Array }>((resolve) =>
    setTimeout(() => resolve({ bytes: bytes.subarray(0, 10) }), 10),
  );
  await Promise.all([hash.add(later), hash.add(Promise.resolve({ bytes: bytes.subarray(10) }))]);
  expect(await hash.digest()).toEqual(blake3(bytes));
  const ended = new OrderedHash(workers, () => pays);
  await ended.add(Promise.resolve({ bytes }));
  pays = false;
  await ended.add(Promise.resolve({ bytes }));
  expect(await ended.digest()).toBeUndefined();
});

test.each([
  [1, 0],
  [2, 0],
  [3, 2],
  [9, 8],
  [192, 8],
])('with %d processors there are %d workers, unless the setting says otherwise', (processors, workers) => {
  expect(preferredWorkerCount(processors)).toBe(workers);
});
