import protobuf from 'protobufjs';
import { describe, expect, test } from 'vitest';
import { renderElasticdl } from '../scripts/render-elasticdl.ts';
import { DATA_TYPES, FORMS, TENSOR_DTYPES, TENSORFLOW } from './elasticdl.ts';

function rendered(sources: readonly string[]): string {
  const root = new protobuf.Root();
  for (const source of sources) protobuf.parse(`syntax = "proto3"; ${source}`, root, { keepCase: true });
  root.resolveAll();
  return renderElasticdl(root);
}

const TENSORFLOW_PACKAGE = 'package elasticdl.tensorflow; enum DataType { DT_INVALID = 0; DT_FLOAT = 1; }';
const DTYPES = 'package elasticdl; enum TensorDtype { DT_INVALID = 0; }';

test('every form that a file of ElasticDL can have is there', () => {
  expect(Object.keys(FORMS)).toEqual(['S0', 'S1', 'S2', 'S2a', 'S3', 'S4', 'S5', 'S6', 'S7']);
});

test('fields have the numbers that files of each time have', () => {
  expect(FORMS.S2.Tensor).toEqual({ dim: 1, content: 2, indices: 3, dtype: 4 });
  expect(FORMS.S2a.Tensor).toEqual({ dim: 1, content: 2, indices: 3, dtype: 4, name: 5 });
  expect(FORMS.S4.Tensor).toEqual({ name: 1, dim: 2, content: 3, indices: 4, dtype: 5 });
  expect(FORMS.S4.Model).toEqual({ version: 1, param: 2, embeddingTableInfo: 3 });
  expect(FORMS.S6.Model).toEqual({
    version: 1,
    embeddingTableInfo: 3,
    denseParameters: 4,
    embeddingTables: 5,
  });
  expect(FORMS.S7.Model).toEqual({
    version: 1,
    embeddingTableInfos: 2,
    denseParameters: 3,
    embeddingTables: 4,
  });
  expect(TENSORFLOW.TensorProto).toMatchObject({ dtype: 1, tensorShape: 2, tensorContent: 4 });
});

test('one number is another type before and after TensorFlow came', () => {
  expect([TENSOR_DTYPES.DT_FLOAT32, TENSOR_DTYPES.DT_INT64]).toEqual([
    DATA_TYPES.DT_INT8,
    DATA_TYPES.DT_UINT8,
  ]);
});

describe('renderElasticdl', () => {
  test('messages inside others are found, and a name in snake case becomes one of TypeScript', () => {
    const text = rendered([
      DTYPES,
      TENSORFLOW_PACKAGE,
      'package elasticdl.s9; message A { message B { int64 row_count = 5; } B b = 1; }',
    ]);
    expect(text).toContain(
      '  S9: {\n    A: {\n      b: 1,\n    },\n    B: {\n      rowCount: 5,\n    },\n  },\n',
    );
  });

  test.each([
    [[], 'no package elasticdl in proto/'],
    [[DTYPES], 'no package elasticdl.tensorflow in proto/'],
    [[DTYPES, TENSORFLOW_PACKAGE], 'no form of ElasticDL in proto/'],
  ])('%j is refused', (sources, message) => {
    expect(() => rendered(sources)).toThrow(message);
  });
});
