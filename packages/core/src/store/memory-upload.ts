import type {
  CallOptions,
  CheckpointError,
  CompleteOptions,
  ObjectInfo,
  PartOptions,
  PartReceipt,
  Upload,
} from '../contract/index.ts';
import type { MemoryBucket, MemoryPart, MemoryUploadState } from './memory-bucket.ts';

/** What an upload needs from the client that began or resumed it. */
export interface MemoryUploadParts {
  readonly bucket: MemoryBucket;
  readonly state: MemoryUploadState;
  readonly maxParts: number;
  /** Throws if the client is closed or the signal has fired. */
  readonly begin: (options: CallOptions) => void;
  readonly assertChecksum: (bytes: Uint8Array, crc32c: number) => void;
  readonly error: (
    code: 'AlreadyExists' | 'Corrupt' | 'InvalidArgument' | 'NotFound',
    message: string,
  ) => CheckpointError;
}

/** One process's handle on an upload in the bucket. */
export class MemoryUpload implements Upload {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  readonly #parts: MemoryUploadParts;

  constructor(parts: MemoryUploadParts) {
    this.#parts = parts;
    this.key = parts.state.key;
    this.token = parts.state.token;
    this.partSizeBytes = parts.state.partSizeBytes;
  }

  async putPart(index: number, bytes: Uint8Array, options: PartOptions): Promise<PartReceipt> {
    const { bucket, begin, error, assertChecksum, maxParts } = this.#parts;
    begin(options);
    if (!Number.isSafeInteger(index) || index < 0 || index >= maxParts) {
      throw error('InvalidArgument', `has no part ${index}; parts are numbered 0 to ${maxParts - 1}`);
    }
    if (bytes.byteLength > this.partSizeBytes) {
      throw error(
        'InvalidArgument',
        `was given a part of ${bytes.byteLength} bytes; its parts have ${this.partSizeBytes}`,
      );
    }
    assertChecksum(bytes, options.crc32c);
    const part = { bytes: bytes.slice(), etag: bucket.nextEtag(), crc32c: options.crc32c };
    this.#state().parts.set(index, part);
    return receiptOf(index, part);
  }

  async listParts(options: CallOptions = {}): Promise<PartReceipt[]> {
    this.#parts.begin(options);
    return [...this.#state().parts].sort(([a], [b]) => a - b).map(([index, part]) => receiptOf(index, part));
  }

  async complete(parts: readonly PartReceipt[], options: CompleteOptions): Promise<ObjectInfo> {
    const { bucket, begin, error, assertChecksum } = this.#parts;
    begin(options);
    const state = this.#state();
    const bytes = join(
      parts.map((receipt, index) => this.#partOf(state, receipt, index, index === parts.length - 1)),
    );
    if (bytes.byteLength !== options.sizeBytes) {
      throw error(
        'Corrupt',
        `has parts of ${bytes.byteLength} bytes together; expected ${options.sizeBytes}`,
      );
    }
    assertChecksum(bytes, options.crc32c);
    const info = bucket.insert(this.key, bytes);
    if (info === undefined) throw error('AlreadyExists', 'already exists');
    bucket.endUpload(this.token);
    return info;
  }

  async abort(options: CallOptions = {}): Promise<void> {
    this.#parts.begin(options);
    this.#parts.bucket.endUpload(this.token);
  }

  #state(): MemoryUploadState {
    const state = this.#parts.bucket.findUpload(this.token);
    if (state === undefined)
      throw this.#parts.error('NotFound', 'has no such upload: it is completed or aborted');
    return state;
  }

  #partOf(state: MemoryUploadState, receipt: PartReceipt, index: number, isLast: boolean): Uint8Array {
    const part = state.parts.get(receipt.index);
    if (receipt.index !== index || part === undefined || part.etag !== receipt.etag) {
      throw this.#parts.error(
        'InvalidArgument',
        `cannot be completed: part ${index} is not the one that was sent last`,
      );
    }
    if (!isLast && part.bytes.byteLength !== this.partSizeBytes) {
      const message = `cannot be completed: part ${index} has ${part.bytes.byteLength} bytes, not ${this.partSizeBytes}, and is not the last`;
      throw this.#parts.error('InvalidArgument', message);
    }
    return part.bytes;
  }
}

function receiptOf(index: number, part: MemoryPart): PartReceipt {
  return { index, sizeBytes: part.bytes.byteLength, crc32c: part.crc32c, etag: part.etag };
}

function join(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.byteLength;
  }
  return bytes;
}
