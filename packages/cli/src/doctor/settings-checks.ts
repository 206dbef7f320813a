/** Reports the store's own settings. The verdict does not depend on them. */

import type { Check, Outcome } from './check.ts';
import type { Probe } from './probe.ts';

export const settingsChecks: readonly Check[] = [
  {
    id: 'settings',
    title: 'settings',
    needs: ['reachable'],
    meaning: 'it is not known what the store itself does with objects',
    advice: 'ask its administrator about versions, locks, and rules that delete or move objects',
    whenDenied: 'it is not known what the store itself does with objects',
    isAboutComfort: true,
    run: lookAtSettings,
  },
];

async function lookAtSettings(probe: Probe): Promise<Outcome> {
  const facts = await (await probe.client()).inspect();
  const nothing = { seen: 'this kind of store has no settings to report' };
  return facts === null || facts.length === 0 ? nothing : { seen: '', facts };
}
