/** Files of another layout, into which tensors are written. Pure. */

import type { JoinedTensor } from './joined-tensors.ts';

export interface PlacedTensor {
  readonly tensor: JoinedTensor;
  /** Place of its first byte in the file. */
  readonly offsetBytes: number;
}

/** Bytes that are no elements, such as a header. */
export interface Frame {
  readonly offsetBytes: number;
  readonly bytes: Uint8Array;
}

export interface TensorFile {
  readonly name: string;
  readonly sizeBytes: number;
  /** In the order of their bytes. */
  readonly tensors: readonly PlacedTensor[];
  /** All bytes around the tensors. They are made as they are taken. */
  frames(): Iterable<Frame>;
}

export interface TensorFiles {
  readonly files: readonly TensorFile[];
  /** A file that says which tensors are where. */
  readonly index: { readonly name: string; readonly bytes: Uint8Array } | undefined;
}

/** Tensors for each file, in their order. Only one that is larger is in a file above the limit. */
export function groupsBySize(tensors: readonly JoinedTensor[], fileBytesMax: number): JoinedTensor[][] {
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
