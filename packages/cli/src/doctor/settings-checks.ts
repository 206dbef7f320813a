/** Reports the store's own settings. The verdict does not depend on them. */

import type { Check, Outcome } from './check.ts';
import type { Probe } from './probe.ts';

export const settingsChecks: readonly Check[] = [
  {
    id: 'settings',
    title: 'settings',
    needs: ['reachable'],
    meaning: 'what the store does with objects by itself is not known',
    advice: 'ask whoever set it up about versions, locks, and rules that delete or move objects',
    whenDenied: 'what the store does with objects by itself is not known',
    isAboutComfort: true,
    run: lookAtSettings,
  },
];

async function lookAtSettings(probe: Probe): Promise<Outcome> {
  const facts = await (await probe.client()).inspect();
  const nothing = { seen: 'this kind of store has none that it could tell' };
  return facts === null || facts.length === 0 ? nothing : { seen: '', facts };
}
