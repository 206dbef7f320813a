/**
 * In Azure, the data of an upload are uncommitted blocks of a blob. Lists such blocks and commits
 * them.
 */

import type { TransportAnswer } from '@holdfast/cloud-http';
import { blockListXml, parseBlockList } from './answers.ts';
import { type BlockName, parseBlockName } from './block-names.ts';
import type { AzureConnection } from './client.ts';
import { AzureRefusal, foreignSuccess, isOfAzure } from './errors.ts';

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
      // Not `read`, which would send a customer-provided encryption key: Azure accepts none with
      // this request, because no bytes of the blob are sent.
      operation: 'other',
      method: 'GET',
      blob,
      query: { comp: 'blocklist', blocklisttype: 'uncommitted' },
      isRepeatable: true,
      signal,
    });
    const list = parseBlockList(new TextDecoder().decode(body), isOfAzure(headers));
    if (list === null) throw foreignSuccess({ status, headers });
    return list.flatMap(({ name, sizeBytes }) => {
      const block = parseBlockName(name);
      return block === null ? [] : [{ name, block, sizeBytes }];
    });
  } catch (error) {
    if (error instanceof AzureRefusal && error.code === 'BlobNotFound') return [];
    throw error;
  }
}

export interface BlockCommit {
  /** Names of the blocks in base64, in the order of the blob. */
  readonly ids: readonly string[];
  /** The blob's metadata, as headers of the request. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

/** Makes a blob of the blocks. Fails if a blob of this name exists. */
export function commitBlocks(
  connection: AzureConnection,
  blob: string,
  { ids, metadata, signal }: BlockCommit,
): Promise<TransportAnswer> {
  return connection.send({
    operation: 'complete',
    method: 'PUT',
    blob,
    query: { comp: 'blocklist' },
    headers: { 'content-type': 'application/xml', 'if-none-match': '*', ...metadata },
    body: blockListXml(ids),
    signal,
  });
}
