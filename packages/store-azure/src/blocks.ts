/** What Azure has of uploads: the uncommitted blocks of a blob. */

import { type BlockName, parseBlockName } from './block-names.ts';
import type { AzureConnection } from './client.ts';
import { AzureRefusal, foreignSuccess, isOfAzure } from './errors.ts';
import { parseBlockList } from './xml.ts';

export interface UploadBlock {
  readonly name: string;
  readonly block: BlockName;
  readonly sizeBytes: number;
}

/** Those of our uploads. None where there is no such blob. */
export async function uncommittedBlocks(
  connection: AzureConnection,
  blob: string,
  signal: AbortSignal | undefined,
): Promise<UploadBlock[]> {
  try {
    const { status, headers, body } = await connection.send({
      operation: 'other', // which has no bytes: Azure takes no key of the customer's with it
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
