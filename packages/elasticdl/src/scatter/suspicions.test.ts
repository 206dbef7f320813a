import { expect, test } from 'vitest';
import type { ShardLayout, TablePlace, TensorPlace } from '../layout.ts';
import type { TableInfo } from '../model.ts';
import type { NamedLayout } from './merge-layouts.ts';
import { suspicionsIn } from './suspicions.ts';

const nowhere = { offsetBytes: 0, lengthBytes: 0 };
const tensor: TensorPlace = { name: 'v', dtype: 'int32', shape: [1], content: nowhere };
const table = (name: string, rowCount = 1): TablePlace => ({
  ...{ name, dtype: 'float32', dim: 2, rowCount, values: nowhere, ids: [] },
});
const info = (name: string): TableInfo => ({ name, dim: 2, initializer: 'zeros', dtype: null });

function file(name: string, fields: Partial<ShardLayout>): NamedLayout {
  const empty = { infos: [], dense: [], tables: [] };
  return { name, layout: { form: 'S7', numbering: 'tensorflow', version: 1, ...empty, ...fields } };
}

test.each<[string, NamedLayout[]]>([
  ['a table without rows, in S7', [file('a', { infos: [info('e')], tables: [table('e', 0)] })]],
  [
    'a table without rows, which S4 leaves out',
    [file('a', { form: 'S4', infos: [info('e')], dense: [tensor] })],
  ],
  ['rows without infos, before there were any', [file('a', { form: 'S2', tables: [table('e')] })]],
  ['variables alone', [file('a', { dense: [tensor] })]],
  ['a server without a share of the variables', [file('a', { dense: [tensor] }), file('b', {})]],
  [
    'a server of S4 without rows and variables',
    [
      file('a', { form: 'S4', infos: [info('e')], tables: [table('e')] }),
      file('b', { form: 'S4', infos: [info('e')] }),
    ],
  ],
])('not suspicious: %s', (_, files) => {
  expect(suspicionsIn(files)).toEqual([]);
});

const many = Array.from({ length: 7 }, (_, at) => info(`e${at}`));

test.each<[string, NamedLayout[]]>([
  ['a holds nothing', [file('a', { version: 0 })]],
  ['a holds a version and nothing else', [file('a', {})]],
  ['a holds infos of tables and no values', [file('a', { form: 'S4', infos: [info('e')] })]],
  [
    'a has the info of tables "e0", "e1", "e2", "e3", "e4" and 2 more, but no entry for the rows, which comes last',
    [file('a', { infos: many, dense: [tensor] })],
  ],
  [
    'a has rows of table "e", but no info of a table, which comes last',
    [file('a', { form: 'S3', tables: [table('e')] })],
  ],
  [
    'b lacks the info of table "e", which a has',
    [
      file('a', { form: 'S4', infos: [info('e')], tables: [table('e')] }),
      file('b', { form: 'S3', dense: [tensor] }),
    ],
  ],
])('suspicious: %s', (reason, files) => {
  expect(suspicionsIn(files)).toEqual([reason]);
});

test('one of several files alone is not judged by what a lone one should hold', () => {
  expect(suspicionsIn([file('a', {})], 2)).toEqual([]);
});
