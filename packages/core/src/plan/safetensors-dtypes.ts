/**
 * Types of tensors in the safetensors format, widest first: the reverse of
 * https://docs.rs/safetensors/latest/safetensors/tensor/enum.Dtype.html, with two types of PyTorch
 * that the format's own library does not have.
 */
const DTYPES: readonly (readonly [name: string, elementBits: number])[] = [
  ['U64', 64],
  ['I64', 64],
  ['F64', 64],
  ['C64', 64],
  ['F32', 32],
  ['U32', 32],
  ['I32', 32],
  ['BF16', 16],
  ['F16', 16],
  ['U16', 16],
  ['I16', 16],
  ['F8_E8M0', 8],
  ['F8_E4M3', 8],
  ['F8_E4M3FNUZ', 8],
  ['F8_E5M2', 8],
  ['F8_E5M2FNUZ', 8],
  ['I8', 8],
  ['U8', 8],
  ['F6_E3M2', 6],
  ['F6_E2M3', 6],
  ['F4', 4],
  ['BOOL', 8],
];

/** Types that only PyTorch has, by its names. */
const OF_TORCH: typeof DTYPES = [
  ['complex128', 128],
  ['complex32', 32],
];

const BITS: ReadonlyMap<string, number> = new Map([...DTYPES, ...OF_TORCH]);
const RANKS: ReadonlyMap<string, number> = new Map(DTYPES.map(([name], rank) => [name, rank]));

/** Bits of an element. `undefined`: the type is unknown. */
export function elementBits(dtype: string): number | undefined {
  return BITS.get(dtype);
}

/** Place of the type in the order of a file's tensors; unknown types come last. */
export function dtypeRank(dtype: string): number {
  return RANKS.get(dtype) ?? DTYPES.length;
}

/** `undefined`: the size of an element of this type is not known. */
export function tensorBytes(dtype: string, shape: readonly number[]): bigint | undefined {
  const bits = BITS.get(dtype);
  if (bits === undefined) return undefined;
  const elements = shape.reduce((product, length) => product * BigInt(length), 1n);
  return (elements * BigInt(bits) + 7n) / 8n;
}
