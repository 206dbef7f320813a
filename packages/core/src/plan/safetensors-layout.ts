/**
 * Lays out a file in the safetensors format: 8 bytes little-endian with the length of the header,
 * the header, then the tensors. The header is JSON, padded with spaces so that the tensors begin at
 * a multiple of 8 or more (https://huggingface.co/docs/safetensors). Tensors follow each other
 * without gaps, as readers require. They are in the order of the format's own library, which keeps
 * every tensor aligned to its elements.
 */

import { shown } from '../contract/checks.ts';
import { CheckpointError } from '../contract/errors.ts';
import { dtypeRank } from './safetensors-dtypes.ts';

/** The limit of the format's own library. */
const HEADER_BYTES_MAX = 100_000_000;
const LENGTH_BYTES = 8;
const ALIGNMENT_BYTES = 8;
const METADATA = '__metadata__';

/** `Dtype`: types as the format names them, such as `F32`. */
export interface TensorToLayOut<Dtype extends string = string> {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly sizeBytes: number;
  /** For messages: which part of the model it is. */
  readonly what: string;
}

export interface LaidOutTensor<Dtype extends string = string> extends Omit<TensorToLayOut<Dtype>, 'what'> {
  /** Offset in the file. */
  readonly offsetBytes: number;
}

export interface SafetensorsLayout<Dtype extends string = string> {
  /** Size of the whole file. */
  readonly sizeBytes: number;
  /** The first bytes of the file: the length and the header. */
  readonly header: Uint8Array<ArrayBuffer>;
  /** In the order of their bytes. */
  readonly tensors: readonly LaidOutTensor<Dtype>[];
}

/**
 * `alignmentBytes`: the tensors begin at a multiple of it, which is a multiple of 8; default 8.
 *
 * `InvalidArgument`: two tensors of one name, a name that the format reserves, or more than a file
 * can hold.
 */
export function layOutSafetensors<Dtype extends string>(
  tensors: readonly TensorToLayOut<Dtype>[],
  metadata: Readonly<Record<string, string>>,
  alignmentBytes = ALIGNMENT_BYTES,
): SafetensorsLayout<Dtype> {
  checkNames(tensors);
  const placed: LaidOutTensor<Dtype>[] = [];
  let dataBytes = 0;
  for (const { name, dtype, shape, sizeBytes, what } of inOrder(tensors)) {
    placed.push({ name, dtype, shape, offsetBytes: dataBytes, sizeBytes });
    dataBytes += sizeBytes;
    if (!Number.isSafeInteger(dataBytes))
      throw new CheckpointError('InvalidArgument', `with ${what} the file would have 2^53 bytes or more`);
  }
  const header = headerOf(placed, metadata, alignmentBytes);
  return {
    sizeBytes: header.byteLength + dataBytes,
    header,
    tensors: placed.map((tensor) => ({ ...tensor, offsetBytes: header.byteLength + tensor.offsetBytes })),
  };
}

function checkNames(tensors: readonly TensorToLayOut[]): void {
  const seen = new Map<string, string>();
  for (const { name, what } of tensors) {
    const other = seen.get(name);
    if (other !== undefined) {
      throw new CheckpointError(
        'InvalidArgument',
        `${other} and ${what} would both be called ${shown(name)} in the file`,
      );
    }
    if (name === METADATA) {
      throw new CheckpointError(
        'InvalidArgument',
        `${what} cannot be called "${METADATA}": the safetensors format reserves this name`,
      );
    }
    seen.set(name, what);
  }
}

/** By type, then by the bytes of the name. */
function inOrder<Dtype extends string>(tensors: readonly TensorToLayOut<Dtype>[]): TensorToLayOut<Dtype>[] {
  return tensors
    .map((tensor) => ({ tensor, key: Buffer.from(tensor.name), rank: dtypeRank(tensor.dtype) }))
    .sort((a, b) => a.rank - b.rank || Buffer.compare(a.key, b.key))
    .map(({ tensor }) => tensor);
}

/**
 * Builds the JSON by hand, because an object would move names that look like numbers to the front.
 * `offsetBytes` counts from the header's end.
 */
function headerOf(
  tensors: readonly LaidOutTensor[],
  metadata: Readonly<Record<string, string>>,
  alignmentBytes: number,
): Uint8Array<ArrayBuffer> {
  const entries = tensors.map(({ name, dtype, shape, offsetBytes, sizeBytes }) => {
    const entry = { dtype, shape, data_offsets: [offsetBytes, offsetBytes + sizeBytes] };
    return `${JSON.stringify(name)}:${JSON.stringify(entry)}`;
  });
  const json = Buffer.from(`{${[`"${METADATA}":${JSON.stringify(metadata)}`, ...entries].join(',')}}`);
  const headerBytes = Math.ceil((LENGTH_BYTES + json.byteLength) / alignmentBytes) * alignmentBytes;
  const jsonBytes = headerBytes - LENGTH_BYTES;
  if (jsonBytes > HEADER_BYTES_MAX) {
    throw new CheckpointError(
      'InvalidArgument',
      `the names and shapes of ${tensors.length} tensors take ${jsonBytes} bytes; the safetensors format has room for ${HEADER_BYTES_MAX}`,
    );
  }
  const header = new Uint8Array(headerBytes).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(jsonBytes), true);
  header.set(json, LENGTH_BYTES);
  return header;
}
