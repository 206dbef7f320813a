/** Finds the files of a checkpoint by docs/format.md, independently of the code under test. */

/** In JSON, fields that are 0 or empty are missing. */
export interface RawFile {
  readonly name: string;
  readonly key: string;
  readonly sizeBytes?: string;
  readonly crc32c?: number;
  readonly partSizeBytes?: string;
}

export interface RawShare {
  readonly writer: number;
  readonly incarnation: number;
  readonly receiptKey: string;
  readonly files: readonly RawFile[];
}

interface RawManifest {
  readonly writers?: readonly (Partial<RawShare> & { readonly receiptKey: string })[];
  readonly receipts?: readonly { readonly incarnation?: number }[];
}

interface RawReceipt {
  readonly files?: readonly RawFile[];
  readonly fileLists?: readonly { readonly sha256: string }[];
}

/** `read` returns any record by its key as JSON. Throws the errors of `read`. */
export function rawShares(manifestKey: string, read: (key: string) => object): RawShare[] {
  const { writers = [], receipts = [] } = read(manifestKey) as RawManifest;
  const prefix = manifestKey.slice(0, manifestKey.lastIndexOf('/') + 1);
  const repeated = writers.map(({ writer = 0, incarnation = 0, receiptKey, files = [] }) => {
    read(receiptKey);
    return { writer, incarnation, receiptKey, files };
  });
  const referred = receipts.map(({ incarnation = 0 }, writer) => {
    const receiptKey = `${prefix}receipts/${writer}.${incarnation}.json`;
    const { files = [], fileLists = [] } = read(receiptKey) as RawReceipt;
    const listed = fileLists.flatMap(({ sha256 }) => {
      const start = Buffer.from(sha256, 'base64').toString('hex').slice(0, 16);
      return (read(`${prefix}files/${writer}.${incarnation}-${start}.json`) as RawReceipt).files ?? [];
    });
    return { writer, incarnation, receiptKey, files: [...files, ...listed] };
  });
  return [...repeated, ...referred];
}
