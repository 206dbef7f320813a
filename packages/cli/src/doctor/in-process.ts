/**
 * Examines a store in this process, for tests of permissions and settings. It leaves out the races
 * of `holdfast doctor`: they take longer than all other checks, and need no other permission than
 * to create.
 */

import { systemClock, systemRandom } from '@holdfast/core/contract';
import { openStore } from '@holdfast/stores';
import { CHECKS } from './checks.ts';
import { examine } from './examine.ts';
import type { Finding } from './finding.ts';

/** Limit of each check. Some servers are slow on a busy machine. */
const TIMEOUT_MS = 120_000;

export async function findingsOf(
  uri: string,
  env: Readonly<Record<string, string>>,
): Promise<readonly Finding[]> {
  const { findings } = await examine({
    checks: CHECKS.filter(({ id, isLong }) => id !== 'race' && !isLong),
    open: () => openStore(uri, env),
    clock: systemClock,
    random: systemRandom,
    prefix: `doctor-${systemRandom.hex(16)}/`,
    timeoutMs: TIMEOUT_MS,
    signal: new AbortController().signal,
  });
  return findings;
}
