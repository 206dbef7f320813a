/**
 * Types of tensors in PyTorch, by their names in the safetensors format, or else by PyTorch's own,
 * which begin in lower case. `storage`: the class that `torch.save` names for the elements; the
 * newer types have none.
 */

export interface TorchType {
  /** As safetensors calls it, or else PyTorch. */
  readonly dtype: string;
  /** As PyTorch calls it, without `torch.`. */
  readonly name: string;
  readonly storage: string | undefined;
}

const TYPES: readonly TorchType[] = (
  [
    ['F64', 'float64', 'DoubleStorage'],
    ['F32', 'float32', 'FloatStorage'],
    ['F16', 'float16', 'HalfStorage'],
    ['BF16', 'bfloat16', 'BFloat16Storage'],
    ['I64', 'int64', 'LongStorage'],
    ['I32', 'int32', 'IntStorage'],
    ['I16', 'int16', 'ShortStorage'],
    ['I8', 'int8', 'CharStorage'],
    ['U64', 'uint64', undefined],
    ['U32', 'uint32', undefined],
    ['U16', 'uint16', undefined],
    ['U8', 'uint8', 'ByteStorage'],
    ['BOOL', 'bool', 'BoolStorage'],
    ['C64', 'complex64', 'ComplexFloatStorage'],
    ['complex128', 'complex128', 'ComplexDoubleStorage'],
    ['complex32', 'complex32', undefined],
    ['F8_E4M3', 'float8_e4m3fn', undefined],
    ['F8_E5M2', 'float8_e5m2', undefined],
    ['F8_E4M3FNUZ', 'float8_e4m3fnuz', undefined],
    ['F8_E5M2FNUZ', 'float8_e5m2fnuz', undefined],
    ['F8_E8M0', 'float8_e8m0fnu', undefined],
  ] as const
).map(([dtype, name, storage]) => ({ dtype, name, storage }));

const BY_DTYPE: ReadonlyMap<string, TorchType> = new Map(TYPES.map((type) => [type.dtype, type]));
const BY_NAME: ReadonlyMap<string, TorchType> = new Map(TYPES.map((type) => [type.name, type]));
const BY_STORAGE: ReadonlyMap<string | undefined, TorchType> = new Map(
  TYPES.map((type) => [type.storage, type]),
);

/** By its name in the safetensors format. `undefined`: PyTorch has no such type. */
export function torchType(dtype: string): TorchType | undefined {
  return BY_DTYPE.get(dtype);
}

/** Whether it is a name of PyTorch: safetensors has no such type. */
export function isOfTorchAlone(dtype: string): boolean {
  return /^[a-z]/.test(dtype);
}

/** The name in the safetensors format of a type of PyTorch. Without one: PyTorch's own name. */
export function dtypeOfTorch(name: string): string {
  return BY_NAME.get(name)?.dtype ?? name;
}

/** The same for a storage class, such as `FloatStorage`. Without one: the class itself. */
export function dtypeOfStorage(storage: string): string {
  return BY_STORAGE.get(storage)?.dtype ?? storage;
}
