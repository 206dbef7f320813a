/** Lists an upload's data in Azure: the uncommitted blocks of a blob. */

import { type BlockName, parseBlockName } from './block-names.ts';
import type { AzureConnection } from './client.ts';
import { AzureRefusal, foreignSuccess, isOfAzure } from './errors.ts';
import { parseBlockList } from './xml.ts';

export interface UploadBlock {
  readonly name: string;
  readonly block: BlockName;
  readonly sizeBytes: number;
}

/** Blocks of our uploads; empty if there is no such blob. */
export async function uncommittedBlocks(
  connection: AzureConnection,
  blob: string,
  signal: AbortSignal | undefined,
): Promise<UploadBlock[]> {
  try {
    const { status, headers, body } = await connection.send({
      // The request carries no bytes, so Azure accepts no customer-provided key with it.
      operation: 'other',
      method: 'GET',
      blob,
      query: { comp: 'blocklist', blocklisttype: 'uncommitted' },
      isRepeatable: true,
      signal,
    });
    const list = parseBlockList(new TextDecoder().decode(body), isOfAzure(headers));
    if (list === null) throw foreignSuccess(status, headers);
    return list.flatMap(({ name, sizeBytes }) => {
      const block = parseBlockName(name);
      return block === null ? [] : [{ name, block, sizeBytes }];
    });
  } catch (error) {
    if (error instanceof AzureRefusal && error.code === 'BlobNotFound') return [];
    throw error;
  }
}
