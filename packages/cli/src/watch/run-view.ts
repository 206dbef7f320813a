/** What a watched directory must know of its run before it saves to it. */

import type { CheckpointSummary, RunManager } from '@holdfast/core/contract';

export interface RunView {
  /** Versions on the path to the latest. */
  readonly committed: ReadonlySet<bigint>;
  /** -1: there is none. */
  readonly latest: bigint;
  readonly leftBehind: readonly CheckpointSummary[];
  /**
   * The last rollback was made then or before, milliseconds since 1970 by the clock of this
   * machine. `null`: there was no rollback.
   */
  readonly rolledBackByMs: number | null;
}

/**
 * Two to four small requests; some ten after a rollback. `nowMs`: the clock of this machine.
 *
 * The list comes first: a rollback between the two answers then leaves no version that looks new.
 */
export async function readRunView(
  manager: RunManager,
  nowMs: () => number,
  signal: AbortSignal | undefined,
): Promise<RunView> {
  const listed = await manager.list({ signal });
  if (listed.length === 0) return { committed: new Set(), latest: -1n, leftBehind: [], rolledBackByMs: null };
  const committed = listed.filter(({ isLeftBehind }) => !isLeftBehind).map(({ version }) => version);
  const { rolledBackByMs, storeTimeMs } = await manager.admin.overview({ findRollback: true, signal });
  return {
    committed: new Set(committed),
    latest: committed.sort((one, other) => (one < other ? -1 : 1)).at(-1) ?? -1n,
    leftBehind: listed.filter(({ isLeftBehind }) => isLeftBehind),
    rolledBackByMs: rolledBackByMs === null ? null : rolledBackByMs - storeTimeMs + nowMs(),
  };
}
