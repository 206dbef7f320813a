/**
 * Lists incomplete uploads of a container: blobs with uncommitted blocks, and what the block names
 * say.
 */

import { encodeToken, type ObjectPlace, PART_SIZE_UNKNOWN, type UploadToken } from '@holdfast/cloud-http';
import { atATime, isObjectKey, type OpenUpload } from '@holdfast/core/contract';
import { keyOf, namePrefix } from './blob-name.ts';
import { type UploadBlock, uncommittedBlocks } from './blocks.ts';
import { requestPage } from './listing.ts';
import type { AzureUploadHome } from './upload.ts';

/** Concurrent requests for lists of blocks. */
const LISTS_AT_A_TIME = 16;

export async function* listUploads(
  store: AzureUploadHome,
  placeOf: (key: string) => ObjectPlace,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<OpenUpload, void, void> {
  const { uri, root } = store.config;
  const run = <T>(work: () => Promise<T>) => store.calls.run({ action: 'list the uploads of', signal }, work);
  const listed = { store: uri, root, connection: store.connection, run };
  let marker: string | undefined;
  do {
    const position = { prefix: root + namePrefix(prefix), start: undefined, marker, isUncommitted: true };
    const page = await requestPage(listed, position, signal);
    marker = page.nextMarker;
    // Azure reports no size for an uncommitted blob. An empty blob costs one more request.
    const keys = page.blobs
      .filter(({ name, sizeBytes, isDirectory }) => sizeBytes === 0 && !isDirectory && name.startsWith(root))
      .map(({ name }) => keyOf(name.slice(root.length)))
      .filter((key) => key !== null)
      .filter((key) => key.startsWith(prefix) && isObjectKey(key));
    const found = await run(() =>
      atATime(keys, LISTS_AT_A_TIME, async (key) =>
        uploadsOf(key, await uncommittedBlocks(store.connection, placeOf(key).path, signal)),
      ),
    );
    yield* found.flat();
  } while (marker !== undefined);
}

function uploadsOf(key: string, blocks: readonly UploadBlock[]): OpenUpload[] {
  const ended = new Set(
    blocks.filter(({ block }) => block.kind === 'aborted').map(({ block }) => block.uploadId),
  );
  return blocks.flatMap(({ block }) => {
    if (block.kind !== 'begun' || ended.has(block.uploadId)) return [];
    const { uploadId, beganAtMs } = block;
    const sizeBytes = blocks
      .filter((other) => other.block.kind === 'part' && other.block.uploadId === uploadId)
      .reduce((sum, part) => sum + part.sizeBytes, 0);
    const token = encodeToken({ key, uploadId, partSizeBytes: PART_SIZE_UNKNOWN } satisfies UploadToken);
    return [{ key, token, beganAtMs, sizeBytes }];
  });
}
