/** Tests a store and makes its certificate. */

import {
  abortError,
  type Clock,
  type ObjectStore,
  type Random,
  toCheckpointError,
} from '@holdfast/core/contract';
import { conformanceChecks } from '@holdfast/testkit';
import { CHECKS } from '../doctor/checks.ts';
import { examine } from '../doctor/examine.ts';
import type { Finding } from '../doctor/finding.ts';
import { atMost, ENDING_MS_MAX, inTime } from '../doctor/in-time.ts';
import { type Removal, removalFinding } from '../doctor/removal.ts';
import { verdictOf } from '../doctor/verdict.ts';
import type { Certificate } from './certificate.ts';
import { type CheckResult, notRun, Suite } from './suite.ts';

/**
 * Checks before the suite. If one fails, the suite would fail everywhere and leave objects behind.
 */
const FIRST = ['reachable', 'may-list', 'may-create', 'may-read', 'may-delete', 'clock', 'settings'];

/** Limit of each of them. */
const FIRST_TIMEOUT_MS = 30_000;
/** Limit for removing the leftovers of an interrupted suite, however many there are. */
const REMOVAL_MS_MAX = 120_000;

export interface CertifyOptions {
  /** Opens a new client of the store, as another process would. */
  readonly open: () => Promise<ObjectStore>;
  /** Facts about the store, for the certificate. */
  readonly facts: Pick<Certificate, 'holdfastVersion' | 'uri' | 'capabilities'>;
  readonly clock: Clock;
  readonly random: Random;
  /** For each check of the suite. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /**
   * Called when a check begins. `index`: among the checks of the suite; `null`: before and after
   * it.
   */
  readonly onStart: (name: string, index: number | null) => void;
  readonly onFinding: (finding: Finding) => void;
  readonly onResult: (result: CheckResult) => void;
}

export const PROMISE_COUNT = conformanceChecks.length;

/**
 * Checks access, clock and settings, and then runs the suite if these allow it. Rejects only when
 * the signal fires, with its reason, and after removing everything.
 */
export async function certifyStore(prefix: string, options: CertifyOptions): Promise<Certificate> {
  const { facts, clock, random, signal, onStart, onFinding, onResult } = options;
  const startedAtMs = clock.nowMs();
  const beganMs = clock.monotonicMs();
  const seed = Math.floor(random.fraction() * 2 ** 32);
  const findings = await lookFirst(prefix, options);
  let checks = conformanceChecks.map((check) => notRun(check, 'an earlier check that it needs failed'));
  if (verdictOf(findings) === 'safe') {
    const suite = new Suite({
      ...options,
      checks: conformanceChecks,
      prefix,
      seed,
      onStart: (check, index) => onStart(check.name, index),
      onResult,
    });
    checks = await suite.run();
    onStart('cleaning up', null);
    const removed = await removeAll(suite, prefix, options);
    findings.push(removed);
    onFinding(removed);
  }
  if (signal.aborted) throw abortError(signal);
  const durationMs = clock.monotonicMs() - beganMs;
  return { ...facts, startedAtMs, durationMs, prefix, seed, findings, checks };
}

async function lookFirst(prefix: string, options: CertifyOptions): Promise<Finding[]> {
  const { onStart, onFinding } = options;
  // The suite reports its own removal later.
  const isNews = ({ id, status }: Finding) => id !== 'clean-up' || status !== 'ok';
  const { findings } = await examine({
    ...options,
    checks: CHECKS.filter(({ id }) => FIRST.includes(id)),
    prefix: `${prefix}access/`,
    timeoutMs: FIRST_TIMEOUT_MS,
    onStart: ({ title }) => onStart(title, null),
    onFinding: (finding) => {
      if (isNews(finding)) onFinding(finding);
    },
  });
  return findings.filter(isNews);
}

async function removeAll(suite: Suite, prefix: string, { clock, random }: CertifyOptions): Promise<Finding> {
  const beganMs = clock.monotonicMs();
  const limit = { clock, timeoutMs: REMOVAL_MS_MAX };
  const removal = await inTime(limit, (signal) => suite.remove(random, signal)).catch(
    (error: unknown): Removal => ({ leftCount: 0, error: toCheckpointError(error) }),
  );
  await atMost(ENDING_MS_MAX, clock, suite.close());
  return removalFinding(removal, prefix, clock.monotonicMs() - beganMs);
}
