import {
  CheckpointError,
  type ObjectInfo,
  type PartReceipt,
  type StoreCapabilities,
} from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { type PartsPage, PartUpload } from './part-upload.ts';
import { StoreCalls } from './store-calls.ts';

const toError = (error: unknown) =>
  error instanceof CheckpointError ? error : new CheckpointError('Unexpected', String(error));
const home = {
  config: { uri: 's3://b' },
  capabilities: { maxParts: 3 } as StoreCapabilities,
  calls: new StoreCalls('s3://b', toError),
};

/** Keeps its parts, two in a page. */
class Kept extends PartUpload {
  readonly sent: string[] = [];
  readonly #etags: string[] = [];
  pages: PartsPage[] | undefined;

  constructor() {
    super(home, { key: 'k', uploadId: '1', partSizeBytes: 2 });
  }

  protected async sendPart(index: number): Promise<{ etag: string }> {
    this.sent.push(`part ${index}`);
    this.#etags[index] = `e${index}`;
    return { etag: `e${index}` };
  }

  protected async partsPage(position = '0'): Promise<PartsPage> {
    const from = Number(position);
    const kept = this.#etags.map((etag, index): PartReceipt => ({ index, sizeBytes: 2, etag }));
    const next = from + 2 < kept.length ? String(from + 2) : undefined;
    return this.pages?.shift() ?? { parts: kept.slice(from, from + 2), next };
  }

  protected async sendCompletion(
    parts: readonly PartReceipt[],
    { sizeBytes }: { sizeBytes: number },
  ): Promise<Omit<ObjectInfo, 'key'>> {
    this.sent.push(`complete ${parts.length}`);
    return { sizeBytes, etag: 'whole', createdAtMs: 0 };
  }

  protected async sendAbort(): Promise<void> {
    this.sent.push('abort');
  }
}

const whole = { sizeBytes: 6, crc32c: 0 };

describe('PartUpload', () => {
  it('numbers parts, lists all pages and completes with what fits together', async () => {
    const upload = new Kept();
    for (const index of [2, 0, 1]) await upload.putPart(index, new Uint8Array(2), { crc32c: 0 });
    const parts = await upload.listParts();
    expect(parts.map(({ index }) => index)).toEqual([0, 1, 2]);
    expect(await upload.complete(parts, whole)).toEqual({
      key: 'k',
      sizeBytes: 6,
      etag: 'whole',
      createdAtMs: 0,
    });
    expect(upload.sent).toEqual(['part 2', 'part 0', 'part 1', 'complete 3']);
  });

  it('sends nothing that cannot be right', async () => {
    const upload = new Kept();
    await expect(upload.putPart(3, new Uint8Array(2), { crc32c: 0 })).rejects.toThrow('0 to 2');
    await expect(upload.putPart(0, new Uint8Array(3), { crc32c: 0 })).rejects.toThrow('3 bytes');
    await expect(upload.complete([], whole)).rejects.toMatchObject({ code: 'Corrupt' });
    expect(upload.sent).toEqual([]);
  });

  it('is gone once it was aborted: only another abort is sent', async () => {
    const upload = new Kept();
    await upload.abort();
    const gone = { code: 'NotFound' };
    await expect(upload.putPart(0, new Uint8Array(2), { crc32c: 0 })).rejects.toMatchObject(gone);
    await expect(upload.listParts()).rejects.toMatchObject(gone);
    await expect(upload.complete([], { sizeBytes: 0, crc32c: 0 })).rejects.toMatchObject(gone);
    await upload.abort();
    expect(upload.sent).toEqual(['abort', 'abort']);
  });

  it('a page of parts that is its own next one ends the listing with an error', async () => {
    const upload = new Kept();
    upload.pages = [
      { parts: [], next: 'x' },
      { parts: [], next: 'x' },
    ];
    await expect(upload.listParts()).rejects.toThrow('does not name the next one');
  });
});
