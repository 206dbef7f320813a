import { expect, test } from 'vitest';
import { DenseTable, type Memory } from './dense-table.ts';

/** A table of rows with one float32, and a record of its writes. */
function tableOf(rowCount: number, presentCount: number, leftBytes: number) {
  const memory: Memory = { leftBytes };
  const values = new Float32Array(rowCount);
  const isWritten = new Uint8Array(4 * rowCount);
  const writes: [firstRow: number, rowCount: number][] = [];
  let underWay = 0;
  let mostUnderWay = 0;
  const table = new DenseTable({
    name: 'user',
    rowBytes: 4,
    rowCount,
    presentCount,
    memory,
    async write(offsetBytes, bytes) {
      expect(offsetBytes + bytes.byteLength).toBeLessThanOrEqual(4 * rowCount);
      expect(isWritten.subarray(offsetBytes, offsetBytes + bytes.byteLength).includes(1)).toBe(false);
      isWritten.fill(1, offsetBytes, offsetBytes + bytes.byteLength);
      writes.push([offsetBytes / 4, bytes.byteLength / 4]);
      underWay++;
      mostUnderWay = Math.max(mostUnderWay, underWay);
      await new Promise((resolve) => setImmediate(resolve));
      new Uint8Array(values.buffer).set(bytes, offsetBytes);
      underWay--;
    },
  });
  const put = (...rows: readonly (readonly [id: number | bigint, value: number])[]) =>
    table.put(
      BigInt64Array.from(rows, ([id]) => BigInt(id)),
      new Uint8Array(Float32Array.from(rows, ([, value]) => value).buffer),
    );
  return { table, put, memory, writes, values, mostUnderWay: () => mostUnderWay };
}

test('a table that fits into memory is written once, with zeros where nothing came, and its memory is given back', async () => {
  const { table, put, memory, writes, values } = tableOf(5, 3, 20);
  await put([3, 30], [1, 10]);
  expect(memory.leftBytes).toBe(0);
  expect(writes).toEqual([]);
  await put([0, 5]);
  await table.end();
  expect(writes).toEqual([[0, 5]]);
  expect([...values]).toEqual([5, 10, 0, 30, 0]);
  expect(memory.leftBytes).toBe(20);
});

test('another table: consecutive rows in a block are written together, in any order', async () => {
  const { table, put, memory, writes, values } = tableOf(10, 7, 39);
  await put([4, 40], [2, 20], [8, 80], [3, 30], [9, 90]);
  await put([0, 1], [5, 50]);
  await table.end();
  expect(writes).toEqual([
    [2, 3],
    [8, 2],
    [0, 1],
    [5, 1],
  ]);
  expect([...values]).toEqual([1, 0, 20, 30, 40, 50, 0, 0, 80, 90]);
  expect(memory.leftBytes).toBe(39);
});

test('the last byte is written even if its row never comes, so that the file has its length', async () => {
  const direct = tableOf(10, 1, 0);
  await direct.put([4, 40]);
  await direct.table.end();
  expect(direct.writes).toEqual([
    [4, 1],
    [9.75, 0.25],
  ]);
  const empty = tableOf(3, 0, 100);
  await empty.table.end();
  expect(empty.writes).toEqual([[2.75, 0.25]]);
});

test('a table without rows takes no memory, whatever it says of their elements', async () => {
  const offsets: number[] = [];
  const write = async (offsetBytes: number) => {
    offsets.push(offsetBytes);
  };
  const sizes = { rowBytes: 2 ** 45, rowCount: 4, presentCount: 0, memory: { leftBytes: 0 } };
  await new DenseTable({ name: 'huge', ...sizes, write }).end();
  expect(offsets).toEqual([2 ** 47 - 1]);
});

test('a table of no rows, or of rows without elements, writes nothing', async () => {
  const none = tableOf(0, 0, 100);
  await none.table.end();
  expect(none.writes).toEqual([]);
  const write = () => Promise.reject(new Error('nothing is to be written'));
  const sizes = { rowBytes: 0, rowCount: 2, presentCount: 1, memory: { leftBytes: 0 } };
  const thin = new DenseTable({ name: 'thin', ...sizes, write });
  await thin.put(BigInt64Array.of(1n), new Uint8Array(0));
  await thin.end();
});

test('blocks larger than what is sorted at once come out whole; some writes are under way together, not all', async () => {
  const count = 150_000;
  // From the last to the first, with a gap every 5,000.
  const order = Array.from({ length: count }, (_, at) => count - 1 - at).filter((id) => id % 5000 !== 0);
  const { table, writes, values, mostUnderWay } = tableOf(count, order.length, 0);
  const rows = Float32Array.from(order);
  await table.put(BigInt64Array.from(order, BigInt), new Uint8Array(rows.buffer));
  await table.end();
  expect(values.every((value, id) => value === (id % 5000 === 0 ? 0 : id))).toBe(true);
  expect(writes.reduce((sum, [, rowCount]) => sum + rowCount, 0)).toBe(order.length);
  expect(writes.length).toBeGreaterThan(30);
  expect(mostUnderWay()).toBeGreaterThan(1);
  expect(mostUnderWay()).toBeLessThanOrEqual(8);
});

test('the highest ids that a table can have a row for are where they belong', async () => {
  const offsets: number[] = [];
  const write = async (offsetBytes: number) => {
    offsets.push(offsetBytes);
  };
  const sizes = { rowBytes: 4, rowCount: 2 ** 32, presentCount: 2, memory: { leftBytes: 0 } };
  const table = new DenseTable({ name: 'wide', ...sizes, write });
  await table.put(BigInt64Array.of(2n ** 32n - 1n, 0n), new Uint8Array(8));
  await table.end();
  expect(offsets).toEqual([0, 4 * (2 ** 32 - 1)]);
});

test.each([5n, -1n, 2n ** 32n, -(2n ** 63n), 2n ** 63n - 1n])(
  'id %s of 5 rows is refused, and nothing of its call is written',
  async (id) => {
    const { put, writes } = tableOf(5, 2, 0);
    await expect(put([0, 1], [id, 2])).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: `table "user" has id ${id}, but is exported with 5 rows, for ids 0 to 4; ${
        id < 0n
          ? 'no dense table has rows for ids below 0: export it sparse'
          : 'give it more, or export it sparse'
      }`,
    });
    expect(writes).toEqual([]);
  },
);

test('any id is one too many for a table that is to have no rows', async () => {
  const { put } = tableOf(0, 1, 0);
  await expect(put([0, 1])).rejects.toThrow('table "user" has id 0, but is exported without rows; ');
});

test('a write that fails is the error of its call', async () => {
  const problem = new Error('no space');
  const sizes = { rowBytes: 4, rowCount: 9, presentCount: 2 };
  const write = () => Promise.reject(problem);
  for (const leftBytes of [0, 100]) {
    const table = new DenseTable({ name: 'user', ...sizes, memory: { leftBytes }, write });
    await expect(table.put(BigInt64Array.of(3n, 5n), new Uint8Array(8))).rejects.toBe(problem);
  }
});
