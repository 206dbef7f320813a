import { expect, test } from 'vitest';
import { asksForDense, storeTables, type TableOptions } from './table-storage.ts';

const TABLES = [
  { name: 'user', dim: 8 },
  { name: 'item', dim: 4 },
];

function refusal(options: TableOptions, tables = TABLES): string {
  let message = 'it is not refused';
  expect(() => storeTables(tables, options)).toThrow(
    expect.toSatisfy((error: Error & { code?: string }) => {
      message = error.message;
      return error.code === 'InvalidArgument';
    }),
  );
  return message;
}

test('tables are sparse, unless they are asked for otherwise', () => {
  const { kept, dropped } = storeTables(TABLES, {});
  expect([...kept]).toEqual([
    ['user', { kind: 'sparse' }],
    ['item', { kind: 'sparse' }],
  ]);
  expect(dropped).toEqual([]);
  expect(asksForDense({})).toBe(false);
});

test('a table with a row count is dense, whatever the others are', () => {
  const options = { rowCounts: { item: 0 } };
  expect(asksForDense(options)).toBe(true);
  expect(storeTables(TABLES, options).kept).toEqual(
    new Map([
      ['user', { kind: 'sparse' }],
      ['item', { kind: 'dense', rowCount: 0 }],
    ]),
  );
});

test('dense: its own row count counts, else that of all', () => {
  const { kept } = storeTables(TABLES, {
    tables: 'dense',
    rowCounts: { item: 2 ** 32 },
    rowCount: 'highest',
  });
  expect(kept).toEqual(
    new Map([
      ['user', { kind: 'dense', rowCount: 'highest' }],
      ['item', { kind: 'dense', rowCount: 2 ** 32 }],
    ]),
  );
});

test('dense: a table without any row count is refused', () => {
  expect(refusal({ tables: 'dense', rowCounts: { item: 3 } })).toBe(
    'table "user" is dense, and its number of rows is not given; pass rowCounts or rowCount',
  );
});

test.each([-1, 0.5, Number.NaN, 2 ** 32 + 1, Infinity])('a row count of %s is refused', (count) => {
  const accepted = 'it takes a whole number from 0 to 4294967296';
  expect(refusal({ rowCounts: { item: count } })).toBe(`rowCounts of table "item" is ${count}; ${accepted}`);
  expect(refusal({ tables: 'dense', rowCount: count })).toBe(`rowCount is ${count}; ${accepted}`);
});

test('options that contradict themselves or the model are refused', () => {
  expect(refusal({ rowCount: 5 })).toBe(
    'rowCount is the number of rows of dense tables, but tables is "sparse"',
  );
  expect(refusal({ tables: 'thick' as 'dense' })).toBe('tables is "thick"; it takes "sparse" or "dense"');
  expect(refusal({ rowCounts: { users: 5 } })).toBe(
    'rowCounts names table "users", which the model does not have; it has "user", "item"',
  );
  expect(refusal({ rowCounts: { users: 5 } }, [])).toMatch(/; it has none$/);
  const many = Array.from({ length: 12 }, (_, at) => ({ name: `t${at}`, dim: 1 }));
  expect(refusal({ rowCounts: { users: 5 } }, many)).toMatch(/"t9" and 2 more$/);
});

const SLOTS = [
  'momentum',
  'm',
  'v',
  'vhat',
  'accum_grad',
  'accum_var',
  'accumulator',
  'linear',
  'rms',
  'mg',
].map((slot) => ({ name: `user-${slot}`, dim: 8 }));

test('the slots of ElasticDL’s optimizers are left out, and named', () => {
  const { kept, dropped } = storeTables([...SLOTS, ...TABLES], {});
  expect([...kept.keys()]).toEqual(['user', 'item']);
  expect(dropped).toEqual(SLOTS.map(({ name }) => name));
});

test('keepSlots keeps them', () => {
  const { kept, dropped } = storeTables([...SLOTS, ...TABLES], { keepSlots: true });
  expect(kept.size).toBe(SLOTS.length + TABLES.length);
  expect(dropped).toEqual([]);
});

test('no slot: without a table, without an optimizer, with rows of another length', () => {
  const own = [
    { name: 'v', dim: 8 },
    { name: '-v', dim: 8 },
    { name: 'users-v', dim: 8 },
    { name: 'user-w', dim: 8 },
    { name: 'item-v', dim: 8 },
    { name: 'user_v', dim: 8 },
  ];
  expect(storeTables([...TABLES, ...own], {}).dropped).toEqual([]);
});

test('a row count for a slot that is left out is refused', () => {
  expect(refusal({ rowCounts: { 'user-m': 5 } }, [...TABLES, ...SLOTS])).toBe(
    'rowCounts names table "user-m", which is left out as a slot of an optimizer; keepSlots keeps it',
  );
});
