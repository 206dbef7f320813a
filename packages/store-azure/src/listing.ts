/** Listings of a container, in the order of the keys' bytes whatever order the store has. */

import { dateMs, objectError, plainEtag } from '@holdfast/cloud-http';
import {
  compareUtf8,
  isObjectKey,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
} from '@holdfast/core/contract';
import { keyOf, namePrefix } from './blob-name.ts';
import type { AzureConnection } from './client.ts';
import { foreignSuccess, isOfAzure } from './errors.ts';
import { type ListedBlob, type Listing, parseListing } from './xml.ts';

/** What a listing is of. */
export interface ListedStore {
  /** For messages. */
  readonly store: string;
  /** Empty, or ends in '/'. */
  readonly root: string;
  readonly connection: AzureConnection;
  readonly run: <T>(work: () => Promise<T>) => Promise<T>;
}

/**
 * An account with a hierarchical namespace lists a directory and what is in it before its
 * neighbours, and shows the directory first: everything from there on is kept until the listing
 * ends and sorted then.
 */
export async function* listPages(
  listed: ListedStore,
  prefix: string,
  { startAfter, signal }: ListOptions,
): AsyncGenerator<ListPage, void, void> {
  const start = startAfter === undefined ? undefined : startOf(prefix, startAfter);
  if (start === null) return;
  const pending: ObjectInfo[] = [];
  let last: string | undefined;
  let marker: string | undefined;
  let isHierarchical = false;
  /** Of the first page that was requested, until one has been given out: ages are told by it. */
  let firstTimeMs: number | undefined;
  let isFirst = true;
  do {
    const page = await requestPage(
      listed,
      { prefix: listed.root + namePrefix(prefix), start, marker },
      signal,
    );
    firstTimeMs ??= page.storeTimeMs;
    isHierarchical ||= page.blobs.some(({ isDirectory }) => isDirectory);
    marker = page.nextMarker;
    const found = objectsOf(page.blobs, listed.root).filter(
      // Other signs may begin with the last of the prefix.
      ({ key }) => key.startsWith(prefix) && (startAfter === undefined || compareUtf8(key, startAfter) > 0),
    );
    pending.push(...found);
    if (isHierarchical && marker !== undefined) continue;
    const objects = pending.splice(0).sort((a, b) => compareUtf8(a.key, b.key));
    assertAfter(listed, last, objects[0]?.key);
    last = objects.at(-1)?.key ?? last;
    if (objects.length > 0 || isFirst)
      yield { objects, storeTimeMs: isFirst ? firstTimeMs : page.storeTimeMs };
    isFirst = false;
  } while (marker !== undefined);
}

export interface Position {
  /** From the root of the container. */
  readonly prefix: string;
  /** Below the prefix of the store: what the listing may begin with. */
  readonly start: string | undefined;
  readonly marker: string | undefined;
  /** Blobs that have nothing but uncommitted blocks are listed too. */
  readonly isUncommitted?: boolean;
}

export async function requestPage(
  { store, root, connection, run }: ListedStore,
  { prefix, start, marker, isUncommitted = false }: Position,
  signal: AbortSignal | undefined,
): Promise<Listing & { storeTimeMs: number }> {
  return run(async () => {
    const { status, headers, body } = await connection.send({
      operation: 'other',
      method: 'GET',
      query: {
        restype: 'container',
        comp: 'list',
        include: isUncommitted ? 'metadata,uncommittedblobs' : 'metadata',
        ...(prefix !== '' && { prefix }),
        ...(start !== undefined && { startFrom: root + namePrefix(start) }),
        ...(marker !== undefined && { marker }),
      },
      isRepeatable: true,
      bodyBytesMax: PAGE_BYTES_MAX,
      signal,
    });
    const listing = parseListing(new TextDecoder().decode(body), isOfAzure(headers));
    if (listing === null) throw foreignSuccess(status, headers);
    if (listing.nextMarker !== undefined && listing.nextMarker === marker)
      throw objectError('Unexpected', { store }, 'was listed up to a page that is its own next one');
    return { ...listing, storeTimeMs: dateMs(headers['date']) };
  });
}

/**
 * 5,000 names of 1,024 characters, each of which may be written as an entity, and what is said of
 * each blob.
 */
const PAGE_BYTES_MAX = 64 * 1024 * 1024;

/**
 * Where the store may begin so that nothing after `startAfter` is left out; nothing: at the
 * beginning. Null: nothing with this prefix comes after it. A name is cut off where orders differ:
 * before a sign below '/', where one of directories differs from one of bytes, and before a letter
 * above U+D7FF, where UTF-16 differs from UTF-8.
 */
export function startOf(prefix: string, startAfter: string): string | undefined | null {
  if (!startAfter.startsWith(prefix)) return compareUtf8(startAfter, prefix) > 0 ? null : undefined;
  const [rest = ''] = /^[/-\ud7ff]*/.exec(startAfter.slice(prefix.length)) ?? [];
  return rest === '' ? undefined : prefix + rest;
}

/** Without what is no object of ours: directories, names outside the grammar. */
function objectsOf(blobs: readonly ListedBlob[], root: string): ObjectInfo[] {
  return blobs.flatMap(({ name, sizeBytes, etag, lastModified, isDirectory }) => {
    const key = keyOf(name.slice(root.length));
    if (isDirectory || !name.startsWith(root) || key === null || !isObjectKey(key)) return [];
    return [{ key, sizeBytes, etag: plainEtag(etag), createdAtMs: dateMs(lastModified) }];
  });
}

function assertAfter({ store }: ListedStore, last: string | undefined, next: string | undefined): void {
  if (last === undefined || next === undefined || compareUtf8(last, next) < 0) return;
  throw objectError('Unexpected', { store }, `was listed out of order: "${next}" came after "${last}"`);
}
