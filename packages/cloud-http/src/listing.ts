import { isObjectKey, type ListOptions, type ListPage, type ObjectInfo } from '@holdfast/core/contract';
import { brokenAnswer } from './documents.ts';

export interface PageRequest {
  /** '/': the page has `prefixes` instead of objects whose names go on after another '/'. */
  readonly delimiter?: '/' | undefined;
  /** From the root of the bucket. */
  readonly prefix: string;
  /** From the root of the bucket. */
  readonly startAfter: string | undefined;
  /** `next` of the page before; undefined for the first page. */
  readonly position: string | undefined;
}

export interface BucketPage {
  /** Their keys are paths in the bucket. */
  readonly objects: readonly ObjectInfo[];
  /** From the root of the bucket, each with the delimiter at its end. Absent: not asked for. */
  readonly prefixes?: readonly string[] | undefined;
  /** Undefined on the last page. */
  readonly next: string | undefined;
  readonly storeTimeMs: number;
}

export interface ListedBucket {
  /** Empty, or ends in '/'. */
  readonly root: string;
  /** Requests one page. Throws for a page that is its own next one: see `nextPosition`. */
  readonly page: (request: PageRequest) => Promise<BucketPage>;
}

/** A listing of a store that lists in the order of the keys' bytes. */
export async function* listInOrder(
  { root, page: requestPage }: ListedBucket,
  prefix: string,
  { startAfter }: ListOptions,
): AsyncGenerator<ListPage, void, void> {
  const start = startAfter === undefined ? undefined : root + startAfter;
  let position: string | undefined;
  let lastKey = startAfter;
  let isFirst = true;
  do {
    const page = await requestPage({ prefix: root + prefix, startAfter: start, position });
    const objects: ObjectInfo[] = [];
    for (const object of page.objects) {
      const key = object.key.slice(root.length);
      // The offset of some stores is inclusive, an emulator repeats a name where pages meet, and
      // other programs may have put objects here.
      if (key === lastKey || !isObjectKey(key)) continue;
      lastKey = key;
      objects.push({ ...object, key });
    }
    if (objects.length > 0 || isFirst) yield { objects, storeTimeMs: page.storeTimeMs };
    isFirst = false;
    position = page.next;
  } while (position !== undefined);
}

/** Names of the directories directly below a prefix, which is empty or ends in '/'. */
export async function* listDirectoryNames(
  { root, page: requestPage }: ListedBucket,
  prefix: string,
): AsyncGenerator<readonly string[], void, void> {
  const base = root + prefix;
  let position: string | undefined;
  let last: string | undefined;
  do {
    const page = await requestPage({ prefix: base, delimiter: '/', startAfter: undefined, position });
    // Names outside the grammar are of other programs. One may be repeated where pages meet.
    const names = (page.prefixes ?? [])
      .map((each) => each.slice(base.length, -1))
      .filter((name) => isObjectKey(prefix + name));
    yield names.filter((name) => name !== last);
    last = names.at(-1) ?? last;
    position = page.next;
  } while (position !== undefined);
}

/** Returns `next`. A page that is its own next one would make a listing endless: `BAD_BODY`. */
export function nextPosition(position: string | undefined, next: string | undefined): string | undefined {
  if (next === undefined || next !== position) return next;
  throw brokenAnswer('it is not the last page, but does not name the next one');
}
