/** Element types: their sizes and the numbers that ElasticDL and TensorFlow use for them. */

import { DATA_TYPES, TENSOR_DTYPES } from '@holdfast/wire/elasticdl';
import type { DtypeNumbering } from './layout.ts';
import type { Dtype } from './model.ts';

const ITEM_BYTES: Readonly<Record<Dtype, number>> = {
  bool: 1,
  int8: 1,
  int16: 2,
  int32: 4,
  int64: 8,
  uint8: 1,
  uint16: 2,
  float16: 2,
  bfloat16: 2,
  float32: 4,
  float64: 8,
};

// ElasticDL never had its own numbers for the unsigned types and bfloat16.
const ELASTICDL: Partial<Record<Dtype, number>> = {
  bool: TENSOR_DTYPES.DT_BOOL,
  int8: TENSOR_DTYPES.DT_INT8,
  int16: TENSOR_DTYPES.DT_INT16,
  int32: TENSOR_DTYPES.DT_INT32,
  int64: TENSOR_DTYPES.DT_INT64,
  float16: TENSOR_DTYPES.DT_FLOAT16,
  float32: TENSOR_DTYPES.DT_FLOAT32,
  float64: TENSOR_DTYPES.DT_FLOAT64,
};

const TENSORFLOW: Record<Dtype, number> = {
  bool: DATA_TYPES.DT_BOOL,
  int8: DATA_TYPES.DT_INT8,
  int16: DATA_TYPES.DT_INT16,
  int32: DATA_TYPES.DT_INT32,
  int64: DATA_TYPES.DT_INT64,
  uint8: DATA_TYPES.DT_UINT8,
  uint16: DATA_TYPES.DT_UINT16,
  float16: DATA_TYPES.DT_HALF,
  bfloat16: DATA_TYPES.DT_BFLOAT16,
  float32: DATA_TYPES.DT_FLOAT,
  float64: DATA_TYPES.DT_DOUBLE,
};

const NUMBERS: Readonly<Record<DtypeNumbering, Partial<Record<Dtype, number>>>> = {
  elasticdl: ELASTICDL,
  tensorflow: TENSORFLOW,
};

function byNumber(numbers: Partial<Record<Dtype, number>>): ReadonlyMap<number, Dtype> {
  return new Map(Object.entries(numbers).map(([dtype, number]) => [number, dtype as Dtype]));
}

const DTYPES: Readonly<Record<DtypeNumbering, ReadonlyMap<number, Dtype>>> = {
  elasticdl: byNumber(ELASTICDL),
  tensorflow: byNumber(TENSORFLOW),
};

/** Bytes of one element. */
export function itemBytes(dtype: Dtype): number {
  return ITEM_BYTES[dtype];
}

/** `null` if the numbering has no number for the type. */
export function numberOfDtype(dtype: Dtype, numbering: DtypeNumbering): number | null {
  return NUMBERS[numbering][dtype] ?? null;
}

/**
 * `null` if the number is unknown, means no type (0), or means a type that no variable of a model
 * has, such as strings.
 */
export function dtypeOfNumber(number: number, numbering: DtypeNumbering): Dtype | null {
  return DTYPES[numbering].get(number) ?? null;
}
