/** Tensors of an exported model as the safetensors format names them. */

import type { LaidOutTensor, TensorToLayOut } from '@holdfast/core';
import { itemBytes } from '../dtype.ts';
import type { Dtype } from '../model.ts';

const NAMES = {
  int64: 'I64',
  float64: 'F64',
  float32: 'F32',
  int32: 'I32',
  bfloat16: 'BF16',
  float16: 'F16',
  uint16: 'U16',
  int16: 'I16',
  int8: 'I8',
  uint8: 'U8',
  bool: 'BOOL',
} as const satisfies Readonly<Record<Dtype, string>>;

export type SafetensorsDtype = (typeof NAMES)[Dtype];
export type ExportedTensor = LaidOutTensor<SafetensorsDtype>;

/** `what`: for messages. */
export function tensorToLayOut(tensor: {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly what: string;
}): TensorToLayOut<SafetensorsDtype> {
  const { dtype, shape } = tensor;
  const sizeBytes = shape.reduce((product, size) => product * size, itemBytes(dtype));
  return { ...tensor, dtype: NAMES[dtype], sizeBytes };
}
