/**
 * The tensors of a checkpoint of `torch.distributed.checkpoint` (DCP) in its own format. Its
 * `.metadata` is a pickle that says which parts of tensors there are and where
 * (https://github.com/pytorch/pytorch/blob/main/torch/distributed/checkpoint/metadata.py). Pure.
 */

import { areCounts } from './bounded-json.ts';
import { PickledDictionary, PickledName, PickledObject, PickleProblem, readPickle } from './pickle.ts';
import { tensorBytes } from './safetensors-dtypes.ts';
import { dtypeOfTorch } from './torch-dtypes.ts';

/** A pickle may name one list of parts many times. A part takes some 300 bytes of memory. */
const PARTS_MAX = 65_536;
/** Limit for the names of all parts together. A result repeats the name for each part. */
const NAMES_CHARS_MAX = 8 * 1024 * 1024;
const DIMENSIONS_MAX = 64;

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

/** `directory`: goes before the names of the files. Throws `PickleProblem`. */
export function readDistcp(pickle: Uint8Array, directory = ''): ArchivedPart[] {
  const metadata = stateOf(readPickle(pickle), 'Metadata');
  const places = placesOf(metadata.get('storage_data'), directory);
  const entries = metadata.get('state_dict_metadata');
  if (!(entries instanceof PickledDictionary)) throw notDcp('state_dict_metadata');
  const parts: ArchivedPart[] = [];
  let nameChars = 0;
  for (const [name, entry] of new Map(entries.pairs())) {
    if (typeof name !== 'string') throw notDcp('the name of a tensor');
    if (!isOf(entry, 'TensorStorageMetadata')) continue;
    for (const part of partsOf(name, entry, places)) {
      parts.push(part);
      nameChars += name.length + part.file.length;
      if (parts.length > PARTS_MAX) throw new PickleProblem(`it has more than ${PARTS_MAX} parts`);
      if (nameChars > NAMES_CHARS_MAX)
        throw new PickleProblem(`the names of its parts have more than ${NAMES_CHARS_MAX} characters`);
    }
  }
  return parts;
}

type Place = Pick<ArchivedPart, 'file' | 'archive'>;
/** By the name of the tensor, then by the offsets of the part. */
type Places = ReadonlyMap<string, ReadonlyMap<string, Place>>;

function placesOf(storage: unknown, directory: string): Places {
  if (!(storage instanceof PickledDictionary)) throw notDcp('storage_data');
  const places = new Map<string, Map<string, Place>>();
  // Each name is made once: a pickle may name a long one many times.
  const files = new Map<string, string>();
  let count = 0;
  for (const [index, info] of storage.pairs()) {
    count += 1;
    if (count > PARTS_MAX) throw new PickleProblem(`it has more than ${PARTS_MAX} parts`);
    const at = stateOf(index, 'MetadataIndex');
    const place = stateOf(info, '_StorageInfo');
    const [file, offsetBytes, lengthBytes] = ['relative_path', 'offset', 'length'].map((name) =>
      place.get(name),
    );
    if (typeof file !== 'string' || !areCounts([offsetBytes, lengthBytes])) throw notDcp('_StorageInfo');
    if (place.get('transform_descriptors') !== undefined)
      throw new PickleProblem(`${JSON.stringify(file)} is compressed or otherwise transformed`);
    const [name, offset] = [at.get('fqn'), at.get('offset')];
    if (typeof name !== 'string') throw notDcp('the name of a tensor');
    const offsets = offset === undefined || offset === null ? [] : sizeOf(offset);
    const named = files.get(file) ?? `${directory}${file}`;
    files.set(file, named);
    const ofTensor = places.get(name) ?? new Map<string, Place>();
    const archive = { offsetBytes, lengthBytes } as ArchivedPart['archive'];
    places.set(name, ofTensor.set(String(offsets), { file: named, archive }));
  }
  return places;
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
    const place = places.get(name)?.get(String(offsets));
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
  return dtypeOfTorch(dtype.name.replace(/^torch\./, ''));
}

/** A `torch.Size`, which is a call with a tuple. */
function sizeOf(value: unknown): readonly number[] {
  const args = isOf(value, 'Size') ? (value as PickledObject).args : undefined;
  const size: unknown = Array.isArray(args) ? args[0] : undefined;
  if (!areCounts(size) || size.length > DIMENSIONS_MAX) throw notDcp('torch.Size');
  return size;
}

function isOf(value: unknown, name: string): boolean {
  return (
    value instanceof PickledObject && value.of instanceof PickledName && value.of.name.endsWith(`.${name}`)
  );
}

function stateOf(value: unknown, name: string): PickledDictionary {
  const state = isOf(value, name) ? (value as PickledObject).state : undefined;
  if (!(state instanceof PickledDictionary)) throw notDcp(name);
  return state;
}

function notDcp(what: string): PickleProblem {
  return new PickleProblem(`it does not have ${what} as PyTorch writes it`);
}
