/**
 * The files of a checkpoint of `torch.distributed.checkpoint` (DCP) in its own format, as its
 * `FileSystemReader` reads them: archives of `torch.save`, and a `.metadata` that says where each
 * tensor is. Pure.
 */

import { shown } from '../contract/checks.ts';
import { CheckpointError } from '../contract/errors.ts';
import type { JoinedTensor } from './joined-tensors.ts';
import {
  called,
  dictionary,
  list,
  named,
  objectOf,
  type PickleValue,
  tuple,
  writePickle,
} from './pickle-writer.ts';
import { type Frame, groupsBySize, type TensorFile, type TensorFiles } from './tensor-files.ts';
import { frameOfTensor, type TensorInArchive } from './torch-archive-frame.ts';
import { type TorchType, torchType } from './torch-dtypes.ts';

const INDEX_NAME = '.metadata';
/** As PyTorch names the version of its metadata. */
const VERSION = '1.0.0';
const METADATA = 'torch.distributed.checkpoint.metadata';
const FILE_SYSTEM = 'torch.distributed.checkpoint.filesystem';

/**
 * `Unsupported`: no type of that name is known. `InvalidArgument`: a name cannot be written as
 * UTF-8.
 */
export function planDistcpFiles(tensors: readonly JoinedTensor[], fileBytesMax: number): TensorFiles {
  const groups = groupsBySize(tensors, fileBytesMax);
  const files = groups.map((group, at) => distcpFile(`__0_${at}.distcp`, group));
  const archives = files.flatMap((file) => file.archives);
  return { files, index: { name: INDEX_NAME, bytes: writePickle(metadataOf(archives)) } };
}

interface Archive {
  readonly tensor: JoinedTensor;
  readonly type: TorchType;
  readonly file: string;
  readonly offsetBytes: number;
  readonly lengthBytes: number;
}

function distcpFile(file: string, group: readonly JoinedTensor[]) {
  let at = 0;
  const placed = group.map((tensor) => {
    const type = typeOf(tensor);
    const { head, tail } = frameOfTensor(inArchive({ tensor, type }));
    const offsetBytes = at;
    const lengthBytes = head.byteLength + tensor.sizeBytes + tail.byteLength;
    at += lengthBytes;
    return { tensor, type, file, offsetBytes, lengthBytes, dataAt: offsetBytes + head.byteLength };
  });
  const made: TensorFile & { readonly archives: readonly Archive[] } = {
    name: file,
    sizeBytes: at,
    tensors: placed.map(({ tensor, dataAt }) => ({ tensor, offsetBytes: dataAt })),
    frames: () => framesOf(placed),
    archives: placed,
  };
  return made;
}

function* framesOf(archives: readonly Archive[]): Generator<Frame> {
  for (const archive of archives) {
    const { offsetBytes, lengthBytes } = archive;
    const { head, tail } = frameOfTensor(inArchive(archive));
    yield { offsetBytes, bytes: head };
    yield { offsetBytes: offsetBytes + lengthBytes - tail.byteLength, bytes: tail };
  }
}

function inArchive({ tensor, type }: Pick<Archive, 'tensor' | 'type'>): TensorInArchive {
  return { type, shape: tensor.shape, sizeBytes: tensor.sizeBytes };
}

function typeOf({ name, dtype }: JoinedTensor): TorchType {
  if (!name.isWellFormed()) {
    const why = `tensor ${shown(name)} has a name that is not valid Unicode, which the layout distcp cannot hold`;
    throw new CheckpointError('InvalidArgument', why);
  }
  const type = torchType(dtype);
  if (type) return type;
  throw new CheckpointError(
    'Unsupported',
    `tensor ${shown(name)} has the type ${dtype}, which is not written in the layout distcp; choose other tensors, or the layout safetensors if it has the type`,
  );
}

function metadataOf(archives: readonly Archive[]): PickleValue {
  // The names are not taken apart: which dots separate nested ones is not known.
  const path = ({ tensor: { name } }: Archive) => tuple(name);
  return objectOf(
    named(METADATA, 'Metadata'),
    dictionary([
      ['state_dict_metadata', dictionary(pairs(archives, nameOf, entryOf))],
      ['planner_data', dictionary(pairs(archives, nameOf, path))],
      ['storage_data', dictionary(pairs(archives, indexOf, placeOf))],
      ['storage_meta', null],
      ['version', VERSION],
    ]),
  );
}

type Described = (archive: Archive) => PickleValue;

function* pairs(
  archives: readonly Archive[],
  key: Described,
  value: Described,
): Generator<[PickleValue, PickleValue]> {
  for (const archive of archives) yield [key(archive), value(archive)];
}

function nameOf({ tensor: { name } }: Archive): PickleValue {
  return name;
}

function entryOf({ tensor: { shape }, type }: Archive): PickleValue {
  const layout = called(named('torch.serialization', '_get_layout'), 'torch.strided');
  const contiguous = called(named(METADATA, '_MEM_FORMAT_ENCODING'), 0);
  const properties = tuple(named('torch', type.name), layout, false, contiguous, false);
  const chunk = dictionary([
    ['offsets', origin(shape)],
    ['sizes', size(shape)],
  ]);
  return objectOf(
    named(METADATA, 'TensorStorageMetadata'),
    dictionary([
      ['properties', objectOf(named(METADATA, 'TensorProperties'), properties)],
      ['size', size(shape)],
      ['chunks', list([objectOf(named(METADATA, 'ChunkStorageMetadata'), chunk)])],
    ]),
  );
}

function indexOf({ tensor: { name, shape } }: Archive): PickleValue {
  return objectOf(
    named(METADATA, 'MetadataIndex'),
    dictionary([
      ['fqn', name],
      ['index', 0],
      ['offset', origin(shape)],
    ]),
  );
}

function placeOf({ file, offsetBytes, lengthBytes }: Archive): PickleValue {
  return objectOf(
    named(FILE_SYSTEM, '_StorageInfo'),
    dictionary([
      ['relative_path', file],
      ['offset', offsetBytes],
      ['length', lengthBytes],
    ]),
  );
}

function size(shape: readonly number[]): PickleValue {
  return called(named('torch', 'Size'), tuple(...shape));
}

function origin(shape: readonly number[]): PickleValue {
  return size(shape.map(() => 0));
}
