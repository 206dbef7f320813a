/**
 * The tensors of a checkpoint of `torch.distributed.checkpoint` (DCP) in its own format. Its
 * `.metadata` is a pickle that says which parts of tensors there are and where
 * (https://github.com/pytorch/pytorch/blob/main/torch/distributed/checkpoint/metadata.py). Pure.
 */

import { areCounts } from './bounded-json.ts';
import { PickledName, PickledObject, PickleProblem, readPickle } from './pickle.ts';
import { tensorBytes } from './safetensors-dtypes.ts';

/** A pickle may name one list of parts many times. */
const PARTS_MAX = 2_000_000;

/** Names of the safetensors format for those of PyTorch. */
const DTYPES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    float64: 'F64',
    float32: 'F32',
    float16: 'F16',
    bfloat16: 'BF16',
    int64: 'I64',
    int32: 'I32',
    int16: 'I16',
    int8: 'I8',
    uint64: 'U64',
    uint32: 'U32',
    uint16: 'U16',
    uint8: 'U8',
    bool: 'BOOL',
    complex64: 'C64',
    float8_e4m3fn: 'F8_E4M3',
    float8_e5m2: 'F8_E5M2',
    float8_e4m3fnuz: 'F8_E4M3FNUZ',
    float8_e5m2fnuz: 'F8_E5M2FNUZ',
    float8_e8m0fnu: 'F8_E8M0',
  }),
);

/** A part of a tensor. The file holds it as `torch.save` writes it. */
export interface ArchivedPart {
  readonly name: string;
  readonly dtype: string;
  readonly wholeShape: readonly number[];
  readonly shape: readonly number[];
  readonly offsets: readonly number[];
  /** The elements alone. */
  readonly sizeBytes: number;
  readonly file: string;
  /** The archive in the file. */
  readonly archive: { readonly offsetBytes: number; readonly lengthBytes: number };
}

/** Throws `PickleProblem`. */
export function readDistcp(pickle: Uint8Array): ArchivedPart[] {
  const metadata = stateOf(readPickle(pickle), 'Metadata');
  const places = placesOf(metadata.get('storage_data'));
  const entries = metadata.get('state_dict_metadata');
  if (!(entries instanceof Map)) throw notDcp('state_dict_metadata');
  const parts: ArchivedPart[] = [];
  for (const [name, entry] of entries) {
    if (typeof name !== 'string') throw notDcp('the name of a tensor');
    if (!isOf(entry, 'TensorStorageMetadata')) continue;
    for (const part of partsOf(name, entry, places)) {
      parts.push(part);
      if (parts.length > PARTS_MAX) throw new PickleProblem(`it has more than ${PARTS_MAX} parts`);
    }
  }
  return parts;
}

type Places = ReadonlyMap<string, Pick<ArchivedPart, 'file' | 'archive'>>;

function placesOf(storage: unknown): Places {
  if (!(storage instanceof Map)) throw notDcp('storage_data');
  const places = [...storage].map(([index, info]) => {
    const at = stateOf(index, 'MetadataIndex');
    const place = stateOf(info, '_StorageInfo');
    const [file, offsetBytes, lengthBytes] = ['relative_path', 'offset', 'length'].map((name) =>
      place.get(name),
    );
    if (typeof file !== 'string' || !areCounts([offsetBytes, lengthBytes])) throw notDcp('_StorageInfo');
    if (place.has('transform_descriptors'))
      throw new PickleProblem(`${JSON.stringify(file)} is compressed or otherwise transformed`);
    const offset = at.get('offset');
    const key = keyOf(at.get('fqn'), offset === undefined || offset === null ? [] : sizeOf(offset));
    return [key, { file, archive: { offsetBytes, lengthBytes } as ArchivedPart['archive'] }] as const;
  });
  return new Map(places);
}

function keyOf(name: unknown, offsets: readonly number[]): string {
  return JSON.stringify([name, offsets]);
}

function* partsOf(name: string, entry: unknown, places: Places): Generator<ArchivedPart> {
  const tensor = stateOf(entry, 'TensorStorageMetadata');
  const dtype = dtypeOf(tensor.get('properties'));
  const wholeShape = sizeOf(tensor.get('size'));
  const chunks = tensor.get('chunks');
  if (!Array.isArray(chunks)) throw notDcp('chunks');
  for (const chunk of chunks) {
    const state = stateOf(chunk, 'ChunkStorageMetadata');
    const [shape, offsets] = [sizeOf(state.get('sizes')), sizeOf(state.get('offsets'))];
    const sizeBytes = Number(tensorBytes(dtype, shape) ?? 0n);
    const place = places.get(keyOf(name, offsets));
    if (!place || shape.length !== wholeShape.length || offsets.length !== shape.length)
      throw new PickleProblem(`it does not say where part [${offsets}] of ${JSON.stringify(name)} is`);
    yield { name, dtype, wholeShape, shape, offsets, sizeBytes, ...place };
  }
}

/** `TensorProperties` has its type first. */
function dtypeOf(properties: unknown): string {
  const state = isOf(properties, 'TensorProperties') ? (properties as PickledObject).state : undefined;
  const dtype = Array.isArray(state) ? state[0] : undefined;
  if (!(dtype instanceof PickledName)) throw notDcp('TensorProperties');
  const name = dtype.name.replace(/^torch\./, '');
  return DTYPES.get(name) ?? name;
}

/** A `torch.Size`, which is a call with a tuple. */
function sizeOf(value: unknown): readonly number[] {
  const args = isOf(value, 'Size') ? (value as PickledObject).args : undefined;
  const size: unknown = Array.isArray(args) ? args[0] : undefined;
  if (!areCounts(size)) throw notDcp('torch.Size');
  return size;
}

function isOf(value: unknown, name: string): boolean {
  return (
    value instanceof PickledObject && value.of instanceof PickledName && value.of.name.endsWith(`.${name}`)
  );
}

function stateOf(value: unknown, name: string): ReadonlyMap<unknown, unknown> {
  const state = isOf(value, name) ? (value as PickledObject).state : undefined;
  if (!(state instanceof Map)) throw notDcp(name);
  return state;
}

function notDcp(what: string): PickleProblem {
  return new PickleProblem(`it does not have ${what} as PyTorch writes it`);
}
