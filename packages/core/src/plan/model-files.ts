/**
 * The files of a model as Hugging Face's libraries read them: safetensors files, and an index that
 * names the file of each tensor
 * (https://huggingface.co/docs/transformers/main/big_models#sharded-checkpoints). Pure.
 */

import { shown } from '../contract/checks.ts';
import { CheckpointError } from '../contract/errors.ts';
import type { JoinedTensor } from './joined-tensors.ts';
import { layOutSafetensors } from './safetensors-layout.ts';
import { groupsBySize, type TensorFile, type TensorFiles } from './tensor-files.ts';
import { isOfTorchAlone, torchType } from './torch-dtypes.ts';

const INDEX_NAME = 'model.safetensors.index.json';
/** Without it `transformers` refuses a file. */
const METADATA = { format: 'pt' };
/** Tensors that begin at a page can be written past the page cache, and mapped into memory. */
const PAGE_BYTES = 4096;

/** `InvalidArgument`: as `layOutSafetensors`. `Unsupported`: safetensors has no such type. */
export function planModelFiles(tensors: readonly JoinedTensor[], fileBytesMax: number): TensorFiles {
  for (const tensor of tensors) assertHasType(tensor);
  const groups = groupsBySize(tensors, fileBytesMax);
  const files = groups.map((group, at) => modelFile(nameOf(at, groups.length), group));
  return { files, index: files.length > 1 ? indexOf(files) : undefined };
}

function assertHasType({ name, dtype }: JoinedTensor): void {
  if (!isOfTorchAlone(dtype)) return;
  const isInDistcp = torchType(dtype) !== undefined;
  const advice = [
    isInDistcp ? 'export it in the layout distcp, or choose other tensors' : 'choose other tensors',
  ];
  const message = `tensor ${shown(name)} has the type ${dtype}, which safetensors does not have`;
  throw new CheckpointError('Unsupported', message, { context: { advice } });
}

function modelFile(name: string, group: readonly JoinedTensor[]): TensorFile {
  const { header, sizeBytes, tensors } = layOutSafetensors(
    group.map((tensor) => ({ ...tensor, what: `tensor ${shown(tensor.name)}` })),
    METADATA,
    PAGE_BYTES,
  );
  const byName = new Map(group.map((tensor) => [tensor.name, tensor]));
  const placed = tensors.map((place) => {
    return { tensor: byName.get(place.name) as JoinedTensor, offsetBytes: place.offsetBytes };
  });
  return { name, sizeBytes, tensors: placed, frames: () => [{ offsetBytes: 0, bytes: header }] };
}

function nameOf(at: number, count: number): string {
  if (count === 1) return 'model.safetensors';
  const digits = (number: number) => String(number).padStart(5, '0');
  return `model-${digits(at + 1)}-of-${digits(count)}.safetensors`;
}

function indexOf(files: readonly TensorFile[]) {
  const placed = files.flatMap(({ name: file, tensors }) =>
    tensors.map(({ tensor: { name, sizeBytes } }) => ({ name, sizeBytes, file })),
  );
  const document = {
    metadata: { total_size: placed.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) },
    weight_map: Object.fromEntries(placed.map(({ name, file }) => [name, file])),
  };
  return { name: INDEX_NAME, bytes: Buffer.from(`${JSON.stringify(document, null, 2)}\n`) };
}
