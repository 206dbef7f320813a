/** Checks that deletes remove the given objects, and no others. */

import { tryToDelete, tryToListAfterDelete } from '@holdfast/testkit';
import { formatPlural } from '../format.ts';
import type { Check, Outcome } from './check.ts';
import type { Probe } from './probe.ts';

const LIST_ROUNDS = 5;

export const deleteChecks: readonly Check[] = [
  {
    id: 'delete',
    title: 'delete',
    needs: ['may-create', 'may-read', 'may-delete'],
    meaning: 'old checkpoints could come back, or live ones vanish, when space is freed',
    advice: 'use a store whose deletes take effect at once, and only for the given keys',
    run: deleteSome,
  },
  {
    id: 'list-after-delete',
    title: 'list after delete',
    needs: ['may-list', 'delete'],
    meaning: 'removed objects would still be listed, and reading them would fail',
    advice: 'use a store whose listings are strongly consistent',
    run: listAfterDelete,
  },
];

async function deleteSome(probe: Probe): Promise<Outcome> {
  const gone = await tryToDelete(probe);
  return { seen: `${formatPlural(gone.length, 'object')} gone, and one that was never there` };
}

async function listAfterDelete(probe: Probe): Promise<Outcome> {
  await tryToListAfterDelete(probe, LIST_ROUNDS);
  return { seen: `${formatPlural(LIST_ROUNDS, 'object')} no longer listed at once` };
}
