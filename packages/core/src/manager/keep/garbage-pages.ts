/** Finds the pages of the catalog that a sweep may delete. */

import { decodeRecord, parsePageKey } from '../../format/index.ts';
import { type ListedObject, olderCatalog, planPageSweep } from '../../plan/sweep.ts';
import type { Head } from '../catalog/index.ts';
import { getOrNull, isUnreadable } from '../records/index.ts';
import type { RunContext } from '../run/index.ts';

/**
 * `pages`: listed before `head` was read. `StoreRegressed`: see `planPageSweep`. Cost: none, except
 * one GET for each page that a lost rebuild has left ahead of a rebuilt catalog.
 */
export async function findGarbagePages(
  run: RunContext,
  pages: readonly ListedObject[],
  head: Head,
  signal: AbortSignal | undefined,
): Promise<readonly ListedObject[]> {
  const { garbage, ahead } = planPageSweep(pages, head);
  for (const { key } of ahead) {
    if ((await runIdOf(run, key, signal)) === head.runId)
      throw olderCatalog(key, parsePageKey(key) ?? 0, head.seq);
  }
  return garbage;
}

/** `null`: the page is gone, or cannot be read. */
async function runIdOf(
  run: RunContext,
  key: string,
  signal: AbortSignal | undefined,
): Promise<string | null> {
  try {
    const bytes = await getOrNull(run.records, key, signal);
    return bytes && decodeRecord('catalog-page', bytes, { key, store: run.store.uri }).runId;
  } catch (error) {
    if (isUnreadable(error)) return null;
    throw error;
  }
}
