/** How two checkpoints differ, judged by their records and the headers of their files. Pure. */

import type { FileChange, FileDiff, TensorChange, TensorDiff } from '../contract/history.ts';
import { compareUtf8 } from '../contract/object-key.ts';
import type { FileRecord } from '../format/index.ts';
import { isSafetensors, type ReadTensor } from './safetensors.ts';
import { haveSameBytes } from './same-content.ts';

/** A file of both checkpoints, or of one of them. */
export interface FilePair {
  readonly name: string;
  readonly change: FileChange;
  readonly before: FileRecord | undefined;
  readonly after: FileRecord | undefined;
}

/** All files of both checkpoints, sorted by name. */
export function pairFiles(before: readonly FileRecord[], after: readonly FileRecord[]): FilePair[] {
  const later = new Map(after.map((file) => [file.name, file]));
  const pairs = before.map((file): FilePair => {
    const other = later.get(file.name);
    later.delete(file.name);
    if (other === undefined) return { name: file.name, change: 'removed', before: file, after: undefined };
    const change = haveSameBytes(file, other) ? 'same' : 'changed';
    return { name: file.name, change, before: file, after: other };
  });
  for (const file of later.values()) {
    pairs.push({ name: file.name, change: 'added', before: undefined, after: file });
  }
  return pairs.sort((a, b) => compareUtf8(a.name, b.name));
}

export function fileDiff(
  { name, change, before, after }: FilePair,
  found: { readonly tensors: readonly TensorDiff[] } | { readonly note: string } | undefined,
): FileDiff {
  return {
    name,
    change,
    beforeBytes: before?.sizeBytes ?? null,
    afterBytes: after?.sizeBytes ?? null,
    tensors: found && 'tensors' in found ? found.tensors : null,
    note: found && 'note' in found ? found.note : '',
  };
}

/** True if it is worth reading: both files exist and differ, and the name indicates tensors. */
export function mayHoldTensors({ name, change }: FilePair): boolean {
  return change === 'changed' && isSafetensors(name);
}

/** All tensors of both files, sorted by name. */
export function diffTensors(
  before: ReadonlyMap<string, ReadTensor>,
  after: ReadonlyMap<string, ReadTensor>,
): TensorDiff[] {
  const diffs: TensorDiff[] = [];
  for (const [name, tensor] of before) {
    const other = after.get(name);
    const change = other ? tensorChange(tensor, other) : 'removed';
    diffs.push({ name, change, before: shapeOf(tensor), after: other ? shapeOf(other) : null });
  }
  for (const [name, tensor] of after) {
    if (!before.has(name)) diffs.push({ name, change: 'added', before: null, after: shapeOf(tensor) });
  }
  return diffs.sort((a, b) => compareUtf8(a.name, b.name));
}

function tensorChange(a: ReadTensor, b: ReadTensor): TensorChange {
  const hasShape =
    a.shape.length === b.shape.length && a.shape.every((size, index) => size === b.shape[index]);
  if (a.dtype !== b.dtype || !hasShape || a.sizeBytes !== b.sizeBytes) return 'reshaped';
  if (a.crc32c === undefined || b.crc32c === undefined) return 'unread';
  return a.crc32c === b.crc32c ? 'same' : 'changed';
}

function shapeOf({ dtype, shape, sizeBytes }: ReadTensor): TensorDiff['before'] {
  return { dtype, shape, sizeBytes };
}
