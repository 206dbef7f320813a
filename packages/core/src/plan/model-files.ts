/**
 * The files of a model as Hugging Face's libraries read them: safetensors files, and an index that
 * names the file of each tensor
 * (https://huggingface.co/docs/transformers/main/big_models#sharded-checkpoints). Pure.
 */

import { shown } from '../contract/checks.ts';
import type { JoinedTensor } from './joined-tensors.ts';
import { layOutSafetensors, type SafetensorsLayout } from './safetensors-layout.ts';

export const INDEX_NAME = 'model.safetensors.index.json';
/** Without it `transformers` refuses a file. */
const METADATA = { format: 'pt' };
/** Tensors that begin at a page can be written past the page cache, and mapped into memory. */
const PAGE_BYTES = 4096;

export interface ModelFile {
  readonly name: string;
  readonly layout: SafetensorsLayout;
  /** By their names in the file. */
  readonly tensors: ReadonlyMap<string, JoinedTensor>;
}

export interface ModelFiles {
  readonly files: readonly ModelFile[];
  /** JSON; `undefined`: there is one file, which needs none. */
  readonly index: string | undefined;
}

/** `InvalidArgument`: as `layOutSafetensors`. */
export function planModelFiles(tensors: readonly JoinedTensor[], fileBytesMax: number): ModelFiles {
  const groups = grouped(tensors, fileBytesMax);
  const files = groups.map((group, at): ModelFile => {
    const layout = layOutSafetensors(
      group.map(({ name, dtype, shape, sizeBytes }) => {
        return { name, dtype, shape, sizeBytes, what: `tensor ${shown(name)}` };
      }),
      METADATA,
      PAGE_BYTES,
    );
    return {
      name: nameOf(at, groups.length),
      layout,
      tensors: new Map(group.map((each) => [each.name, each])),
    };
  });
  return { files, index: files.length > 1 ? indexOf(files) : undefined };
}

function grouped(tensors: readonly JoinedTensor[], fileBytesMax: number): JoinedTensor[][] {
  const groups: JoinedTensor[][] = [[]];
  let sizeBytes = 0;
  for (const tensor of tensors) {
    if (sizeBytes > 0 && sizeBytes + tensor.sizeBytes > fileBytesMax) {
      groups.push([]);
      sizeBytes = 0;
    }
    groups.at(-1)?.push(tensor);
    sizeBytes += tensor.sizeBytes;
  }
  return groups;
}

function nameOf(at: number, count: number): string {
  if (count === 1) return 'model.safetensors';
  const digits = (number: number) => String(number).padStart(5, '0');
  return `model-${digits(at + 1)}-of-${digits(count)}.safetensors`;
}

function indexOf(files: readonly ModelFile[]): string {
  const tensors = files.flatMap(({ name: file, layout }) =>
    layout.tensors.map((tensor) => ({ ...tensor, file })),
  );
  const document = {
    metadata: { total_size: tensors.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) },
    weight_map: Object.fromEntries(tensors.map(({ name, file }) => [name, file])),
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}
