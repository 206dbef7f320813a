import { expect, test } from 'vitest';
import type { DtypeNumbering, Form, ShardLayout, TablePlace, TensorPlace } from '../layout.ts';
import type { TableInfo } from '../model.ts';
import { mergeLayouts, type NamedLayout } from './merge-layouts.ts';

const nowhere = { offsetBytes: 0, lengthBytes: 0 };

function named(fields: Partial<ShardLayout>): NamedLayout {
  const layout: ShardLayout = {
    form: 'S7',
    numbering: 'tensorflow',
    version: 1,
    infos: [],
    dense: [],
    tables: [],
    ...fields,
  };
  return { name: `a ${layout.form}`, layout };
}

const tensor: TensorPlace = { name: 'v', dtype: 'int32', shape: [1], content: nowhere };
const table = (fields: Partial<TablePlace> = {}): TablePlace => ({
  name: 'e',
  dtype: 'float32',
  dim: 2,
  rowCount: 1,
  values: nowhere,
  ids: [],
  ...fields,
});
const info = (fields: Partial<TableInfo> = {}): TableInfo => ({
  name: 'e',
  dim: 2,
  initializer: 'zeros',
  dtype: null,
  ...fields,
});

test('a variable in two files is known, and that of the last file counts', () => {
  const [a, b] = [named({ dense: [tensor] }), named({ dense: [tensor, { ...tensor, name: 'w' }] })];
  const model = mergeLayouts([a, b]);
  expect([model.repeatedVariables, model.dense.get('v')?.file]).toEqual([['v'], 1]);
  expect(mergeLayouts([b]).repeatedVariables).toEqual([]);
});

test.each<[string, Partial<TensorPlace>, string]>([
  ['shapes', { shape: [2, 3] }, 'int32 [2, 3]'],
  ['types', { dtype: 'float32' }, 'float32 [1]'],
])('a variable of two %s in two files is Corrupt', (_, other, is) => {
  const files = [named({ dense: [tensor] }), { ...named({ dense: [{ ...tensor, ...other }] }), name: 'b' }];
  expect(() => mergeLayouts(files)).toThrow(
    expect.objectContaining({
      code: 'Corrupt',
      message: `b: variable "v" at byte 0 is ${is}, and int32 [1] in a S7`,
    }),
  );
});

const of = (form: Form, numbering: DtypeNumbering | null, fields: Partial<ShardLayout> = {}) =>
  named({ form, numbering, dense: [tensor], ...fields });

test.each<[string, NamedLayout[]]>([
  ['maps of tensors with and without types', [of('S0', null), of('S1', null), of('S2', 'elasticdl')]],
  ['lists with and without infos', [of('S3', 'elasticdl'), of('S4', 'elasticdl', { infos: [info()] })]],
  ['a list whose types mean the same in both numberings', [of('S4', null), of('S5', 'tensorflow')]],
  [
    'files without anything',
    [of('S7', 'tensorflow'), named({ form: 'S0', numbering: null }), of('S7', 'tensorflow')],
  ],
  [
    'a file with nothing but infos',
    [of('S6', 'tensorflow'), named({ form: 'S4', numbering: null, infos: [info()] })],
  ],
])('one schema: %s', (_, files) => {
  expect(mergeLayouts(files).version).toBe(1);
});

test.each<[string, NamedLayout[], string]>([
  ['a map and a list', [of('S2', 'elasticdl'), of('S4', 'elasticdl')], 'a S2 is of form S2, a S4 of S4'],
  ['the branch', [of('S3', 'elasticdl'), of('S2a', 'elasticdl')], 'a S3 is of form S3, a S2a of S2a'],
  ['both numberings', [of('S4', 'elasticdl'), of('S5', 'tensorflow')], 'a S4 is of form S4, a S5 of S5'],
  [
    'both numberings, with a file between them that may be of either',
    [of('S4', null), of('S5', 'tensorflow'), of('S4', 'elasticdl')],
    'a S5 is of form S5, a S4 of S4',
  ],
  [
    'the maps of TensorFlow’s tensors',
    [of('S6', 'tensorflow'), of('S7', 'tensorflow')],
    'a S6 is of form S6, a S7 of S7',
  ],
  [
    'infos alone where S7 has its own',
    [of('S7', 'tensorflow'), named({ form: 'S4', numbering: null, infos: [info()] })],
    'a S7 is of form S7, a S4 of S4',
  ],
])('two schemas are Corrupt: %s', (_, files, found) => {
  expect(() => mergeLayouts(files)).toThrow(`two schemas in one directory: ${found}`);
});

test('infos: the first of a name wins; elements that one does not know come from another, the type from the rows', () => {
  const { infos, tables } = mergeLayouts([
    named({ infos: [info({ dim: 0 }), info({ name: 'empty', dim: 3 })] }),
    named({ infos: [info({ initializer: 'ones' })], tables: [table({ dtype: 'int64' })] }),
  ]);
  expect(infos).toEqual([info({ dtype: 'int64' }), info({ name: 'empty', dim: 3, dtype: 'float32' })]);
  expect(tables).toMatchObject([
    { name: 'e', rowBytes: 16, parts: [{ file: 1 }] },
    { name: 'empty', rowBytes: 12, parts: [] },
  ]);
});

test('a table that no info names has one all the same', () => {
  const { infos } = mergeLayouts([named({ form: 'S1', numbering: null, tables: [table()] })]);
  expect(infos).toEqual([info({ initializer: 'uniform', dtype: 'float32' })]);
});

test('a table without rows says nothing of its type', () => {
  const empty = table({ rowCount: 0, dtype: 'float64', dim: 0 });
  const { tables } = mergeLayouts([
    named({ tables: [empty], infos: [info()] }),
    named({ tables: [table()] }),
  ]);
  expect(tables).toMatchObject([{ dtype: 'float32', dim: 2, parts: [{ file: 1 }] }]);
});

test('a variable in two files: the later one stays', () => {
  const { dense } = mergeLayouts([named({ dense: [tensor] }), named({ dense: [tensor] })]);
  expect(dense.get('v')?.file).toBe(1);
});

test('an info that says otherwise than the rows is Corrupt', () => {
  const files = [named({ infos: [info({ dim: 5 })] }), named({ tables: [table()] })];
  expect(() => mergeLayouts(files)).toThrow(
    'files do not agree on the elements of a row of table "e": a S7 says 5, a S7 has rows of 2 float32',
  );
});

test.each<[string, NamedLayout[]]>([
  ['a S7 is empty, without even a version, but should be version 7', [named({ version: 0 })]],
  ['a S7 has no version, but should be version 7', [named({ version: 0, dense: [tensor] })]],
])('%s', (message, files) => {
  expect(() => mergeLayouts(files, 7n)).toThrow(expect.objectContaining({ code: 'Corrupt', message }));
  expect(mergeLayouts(files, 0n).version).toBe(0);
  expect(mergeLayouts(files).version).toBe(0);
});

test('a version that is another one than the name says is kept: the caller tells it', () => {
  expect(mergeLayouts([named({ version: 4 })], 7n).version).toBe(4);
});
