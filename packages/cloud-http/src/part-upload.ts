/** What uploads in parts have in common for all providers: checks, order of calls, and the end. */

import type {
  CallOptions,
  CheckpointError,
  CompleteOptions,
  ObjectInfo,
  PartOptions,
  PartReceipt,
  StoreCapabilities,
  Upload,
} from '@holdfast/core/contract';
import { objectError, type StoreSubject } from './errors.ts';
import { nextPosition } from './listing.ts';
import type { StoreCalls } from './store-calls.ts';
import { assertComplete, assertPart, encodeToken } from './upload-parts.ts';

/** State that uploads share with their store. */
export interface UploadHome {
  readonly config: { readonly uri: string };
  readonly capabilities: StoreCapabilities;
  readonly calls: StoreCalls;
}

export interface UploadToken {
  readonly key: string;
  readonly uploadId: string;
  readonly partSizeBytes: number;
}

/** Without `crc32c` the store computes a checksum that is not compared. */
export type Completion = Omit<CompleteOptions, 'crc32c'> & { readonly crc32c?: number | undefined };

export interface PartsPage {
  readonly parts: readonly PartReceipt[];
  /** Position of the next page; undefined on the last one. */
  readonly next?: string | undefined;
}

export abstract class PartUpload implements Upload {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  protected readonly subject: StoreSubject;
  readonly #home: UploadHome;
  #isAborted = false;

  /** All fields of `token` are encoded, also those of a subclass. */
  constructor(home: UploadHome, token: UploadToken) {
    this.key = token.key;
    this.token = encodeToken(token);
    this.partSizeBytes = token.partSizeBytes;
    this.subject = { store: home.config.uri, key: token.key };
    this.#home = home;
  }

  putPart(index: number, bytes: Uint8Array, options: PartOptions): Promise<PartReceipt> {
    return this.run('send a part of', options.signal, async () => {
      this.#assertAlive();
      const { maxParts } = this.#home.capabilities;
      const sizeBytes = bytes.byteLength;
      assertPart(this.subject, { partSizeBytes: this.partSizeBytes, maxParts }, index, sizeBytes);
      return { index, sizeBytes, ...(await this.sendPart(index, bytes, options)) };
    });
  }

  listParts({ signal }: CallOptions = {}): Promise<PartReceipt[]> {
    return this.run('list the parts of', signal, async () => {
      this.#assertAlive();
      const parts: PartReceipt[] = [];
      let position: string | undefined;
      do {
        const page = await this.partsPage(position, signal);
        parts.push(...page.parts);
        position = nextPosition(position, page.next);
      } while (position !== undefined);
      return parts;
    });
  }

  complete(parts: readonly PartReceipt[], options: Completion): Promise<ObjectInfo> {
    return this.run('complete', options.signal, async () => {
      this.#assertAlive();
      assertComplete(this.subject, this.partSizeBytes, parts, options);
      return { key: this.key, ...(await this.sendCompletion(parts, options)) };
    });
  }

  abort({ signal }: CallOptions = {}): Promise<void> {
    return this.run('abort an upload to', signal, () => {
      this.#isAborted = true;
      return this.sendAbort(signal);
    });
  }

  protected abstract sendPart(
    index: number,
    bytes: Uint8Array,
    options: PartOptions,
  ): Promise<Omit<PartReceipt, 'index' | 'sizeBytes'>>;

  /** In the order of their indexes. */
  protected abstract partsPage(
    position: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<PartsPage>;

  /** Called after the check that the parts fit together. */
  protected abstract sendCompletion(
    parts: readonly PartReceipt[],
    options: Completion,
  ): Promise<Omit<ObjectInfo, 'key'>>;

  /** Succeeds also if the upload is gone. */
  protected abstract sendAbort(signal: AbortSignal | undefined): Promise<void>;

  protected run<T>(action: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    return this.#home.calls.run({ action, key: this.key, signal }, work);
  }

  protected gone(why: string, cause?: unknown): CheckpointError {
    return objectError('NotFound', this.subject, `has no such upload: ${why}`, cause);
  }

  #assertAlive(): void {
    if (this.#isAborted) throw this.gone('it was aborted');
  }
}
