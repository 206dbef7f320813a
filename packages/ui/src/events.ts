/** The newest decisions of a run. Each entry of the catalog is read once. */

import type { LogEntry, RunManager } from '@holdfast/core/contract';
import type { EventsView } from './api.ts';
import { eventRow, originOf } from './rows.ts';

/**
 * One read for each, and each entry may hold a thousand checkpoints. A catalog keeps at least 320
 * entries, so the view says whether older ones were not read or are deleted.
 */
export const EVENTS_MAX = 200;

interface Known {
  /** The number of the newest decision that is known. */
  readonly seq: number;
  readonly view: EventsView;
}

export class EventsReader {
  readonly #manager: RunManager;
  #known: Known | null = null;

  constructor(manager: RunManager) {
    this.#manager = manager;
  }

  /** `seq`: number of the newest decision. Reads those that are not known yet. */
  async read(seq: number, signal: AbortSignal): Promise<EventsView> {
    const before = this.#known;
    if (before !== null && seq <= before.seq) return before.view;
    const isContinued = before !== null && seq - before.seq < EVENTS_MAX;
    const limit = isContinued ? seq - before.seq : EVENTS_MAX;
    const entries = await this.#manager.admin.log({ limit, signal });
    const isJoined = isContinued && (entries.at(-1)?.seq ?? 0) <= before.seq + 1;
    if (isContinued && !isJoined) {
      // More decisions were made meanwhile, so some in between are missing.
      this.#known = null;
      return this.read(seq, signal);
    }
    const view = isJoined ? continuedView(entries, before.view) : firstView(entries, limit);
    this.#known = { seq: entries[0]?.seq ?? seq, view };
    return view;
  }
}

/** `entries`: newest first, read with this limit. */
export function firstView(entries: readonly LogEntry[], limit: number): EventsView {
  const events = entries.map(eventRow);
  return viewOf(events, entries.length < limit);
}

/** With newer entries, which end where the former view began. */
export function continuedView(entries: readonly LogEntry[], before: EventsView): EventsView {
  const fresh = entries.map(eventRow);
  const oldest = fresh.at(-1)?.seq ?? Number.POSITIVE_INFINITY;
  const all = [...fresh, ...before.events.filter(({ seq }) => seq < oldest)];
  const events = all.slice(0, EVENTS_MAX);
  return viewOf(events, before.older !== 'unread' && events.length === all.length);
}

/** `isWhole`: the catalog keeps no older decisions. */
function viewOf(events: EventsView['events'], isWhole: boolean): EventsView {
  const oldest = events.at(-1)?.seq ?? 1;
  const older = oldest <= 1 ? 'none' : isWhole ? 'deleted' : 'unread';
  return { events, origin: originOf(events), older };
}
