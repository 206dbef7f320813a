/** Lists a container in the order of the keys' bytes, whatever order the store uses. */

import { dateMs, nextPosition, objectError, plainEtag } from '@holdfast/cloud-http';
import {
  compareUtf8,
  isObjectKey,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
} from '@holdfast/core/contract';
import { type ListedBlob, type Listing, parseListing } from './answers.ts';
import { keyOf, namePrefix } from './blob-name.ts';
import type { AzureConnection } from './client.ts';
import { foreignSuccess, isOfAzure } from './errors.ts';

/** The store that is listed. */
export interface ListedStore {
  /** For messages. */
  readonly store: string;
  /** Empty, or ends in '/'. */
  readonly root: string;
  readonly connection: AzureConnection;
  readonly run: <T>(work: () => Promise<T>) => Promise<T>;
}

/**
 * An account with a hierarchical namespace lists a directory and its contents before the
 * neighbours, and shows the directory first. From there on all objects are buffered, and sorted
 * when the listing ends.
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
  /** Time of the first request, until a page has been returned: ages are computed from it. */
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
      // In the blob's name, more characters may follow the last one of the prefix.
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

/** Names of the directories directly below a prefix, which is empty or ends in '/'. */
export async function* listDirectoryNames(
  listed: ListedStore,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly string[], void, void> {
  const base = listed.root + namePrefix(prefix);
  let marker: string | undefined;
  do {
    const position = { prefix: base, delimiter: '/', start: undefined, marker } as const;
    const page = await requestPage(listed, position, signal);
    yield page.prefixes.flatMap((name) => {
      // Encoded names end differently before the delimiter.
      const key = name.startsWith(base) ? keyOf(name.slice(listed.root.length)) : null;
      return key?.startsWith(prefix) && isObjectKey(key.slice(0, -1)) ? [key.slice(prefix.length, -1)] : [];
    });
    marker = page.nextMarker;
  } while (marker !== undefined);
}

export interface Position {
  readonly delimiter?: '/' | undefined;
  /** Relative to the container. */
  readonly prefix: string;
  /** Relative to the store's prefix: where the listing may begin. */
  readonly start: string | undefined;
  readonly marker: string | undefined;
  /** Also list blobs that have only uncommitted blocks. */
  readonly isUncommitted?: boolean;
}

export async function requestPage(
  { root, connection, run }: ListedStore,
  { prefix, delimiter, start, marker, isUncommitted = false }: Position,
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
        ...(delimiter && { delimiter }),
        ...(start !== undefined && { startFrom: root + namePrefix(start) }),
        ...(marker !== undefined && { marker }),
      },
      isRepeatable: true,
      bodyBytesMax: PAGE_BYTES_MAX,
      signal,
    });
    const listing = parseListing(new TextDecoder().decode(body), isOfAzure(headers));
    if (listing === null) throw foreignSuccess({ status, headers });
    nextPosition(marker, listing.nextMarker);
    return { ...listing, storeTimeMs: dateMs(headers['date']) };
  });
}

/**
 * Room for 5,000 names of 1,024 characters, each possibly written as an entity, and for the
 * properties of each blob.
 */
const PAGE_BYTES_MAX = 64 * 1024 * 1024;

/**
 * First name that the store may begin with, so that it skips no name after `startAfter`. Undefined:
 * begin with the first. Null: no name with this prefix comes after it. A name is truncated where
 * two orders differ. Before a character below '/', the order of directories differs from the order
 * of bytes. Before a character above U+D7FF, UTF-16 order differs from UTF-8 order.
 */
export function startOf(prefix: string, startAfter: string): string | undefined | null {
  if (!startAfter.startsWith(prefix)) return compareUtf8(startAfter, prefix) > 0 ? null : undefined;
  const [rest = ''] = /^[/-\ud7ff]*/.exec(startAfter.slice(prefix.length)) ?? [];
  return rest === '' ? undefined : prefix + rest;
}

/** Excludes foreign entries: directories, and names outside the grammar. */
function objectsOf(blobs: readonly ListedBlob[], root: string): ObjectInfo[] {
  return blobs.flatMap(({ name, sizeBytes, etag, lastModified, isDirectory }) => {
    const key = keyOf(name.slice(root.length));
    if (isDirectory || !name.startsWith(root) || key === null || !isObjectKey(key)) return [];
    return [{ key, sizeBytes, etag: plainEtag(etag), createdAtMs: dateMs(lastModified) }];
  });
}

function assertAfter({ store }: ListedStore, last: string | undefined, next: string | undefined): void {
  if (last === undefined || next === undefined || compareUtf8(last, next) < 0) return;
  throw objectError(
    'Unavailable',
    { store },
    `returned a listing that is out of order: "${next}" came after "${last}"`,
  );
}
