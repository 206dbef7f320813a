import { abortError, type StoreFact, toCheckpointError } from '@holdfast/core/contract';
import { ChangedOnTheWay, ConformanceError } from '@holdfast/testkit';
import { sentence } from '../advice.ts';
import type { Check, Outcome } from './check.ts';
import type { Finding } from './finding.ts';
import { atMost, ENDING_MS_MAX, inTime } from './in-time.ts';
import { Probe } from './probe.ts';
import { type Removal, removalFinding } from './removal.ts';
import { Visit, type VisitOptions } from './visit.ts';

export interface ExamineOptions extends VisitOptions {
  readonly checks: readonly Check[];
  /** Limit of each check. */
  readonly timeoutMs: number;
  /** Stops the examination; what it put into the store is removed nevertheless. */
  readonly signal: AbortSignal;
  readonly onStart?: (check: Check) => void;
  /** Called with each finding as soon as it is known. */
  readonly onFinding?: (finding: Finding) => void;
}

export interface Examination {
  /** In the order of the checks. The last one tells whether everything was removed. */
  readonly findings: readonly Finding[];
  /** Requests repeated because of temporary errors. */
  readonly repeatCount: number;
}

/**
 * Runs all checks, one after the other. Rejects only when the signal fires, with its reason, and
 * after removing everything.
 */
export async function examine(options: ExamineOptions): Promise<Examination> {
  const visit = new Visit(options);
  const findings: Finding[] = [];
  const tell = (finding: Finding) => {
    findings.push(finding);
    options.onFinding?.(finding);
  };
  try {
    for (const check of options.checks) {
      if (options.signal.aborted) break;
      const kept = notRun(check, findings);
      for (const finding of kept === null ? await runCheck(check, visit, options) : [kept]) tell(finding);
    }
    tell(await cleanUp(visit, options));
  } finally {
    await atMost(ENDING_MS_MAX, options.clock, visit.close());
  }
  if (options.signal.aborted) throw abortError(options.signal);
  return { findings, repeatCount: visit.repeatCount };
}

function notRun(check: Check, findings: readonly Finding[]): Finding | null {
  const cause = findings.find(
    ({ id, status }) => check.needs.includes(id) && (status === 'failed' || status === 'not-run'),
  );
  if (cause === undefined) return null;
  const because = cause.because ?? cause.title;
  const rest = { meaning: '', advice: '', code: null, durationMs: 0, figures: {} };
  return { ...headOf(check), status: 'not-run', seen: `"${because}" failed`, because, ...rest };
}

/** One finding, or one for each fact; empty if it was interrupted. */
async function runCheck(check: Check, visit: Visit, options: ExamineOptions): Promise<Finding[]> {
  options.onStart?.(check);
  const { clock } = options;
  const beganMs = clock.monotonicMs();
  const ended = await inTime(options, (signal) => check.run(new Probe(visit, check.id, signal))).then(
    (outcome) => ({ outcome }),
    (error: unknown) => ({ error }),
  );
  if (options.signal.aborted) return [];
  const rest = { because: null, durationMs: clock.monotonicMs() - beganMs };
  if ('error' in ended) return [{ ...headOf(check), ...judgeError(check, ended.error), ...rest }];
  const { facts } = ended.outcome;
  if (facts === undefined) return [{ ...headOf(check), ...judgeOutcome(ended.outcome), ...rest }];
  return facts.map((fact) => ({ ...headOf(fact), ...judgeOutcome(fact), ...rest }));
}

const CHANGED_MEANING =
  'bytes are changed in transit, so it is not known whether the store keeps this promise';
const CHANGED_ADVICE =
  'find what changes them (a proxy, the network, or the memory of this machine), then run this again';

/** Limit of the removal, however short the checks are. */
const CLEAN_UP_MS_MAX = 30_000;

type Judged = Omit<Finding, 'id' | 'title' | 'because' | 'durationMs'>;

function judgeOutcome({
  seen,
  figures = {},
  concern,
}: Outcome | (StoreFact & Pick<Outcome, 'figures'>)): Judged {
  const { meaning, advice } = concern ?? { meaning: '', advice: '' };
  return { status: concern === undefined ? 'ok' : 'degraded', seen, meaning, advice, code: null, figures };
}

function judgeError(check: Check, error: unknown): Judged {
  const status = check.isAboutComfort === true ? 'degraded' : 'failed';
  const { code, message, advice } = toCheckpointError(error);
  // A store that rejects the operation fails the check too.
  if (error instanceof ConformanceError || code === 'Unsupported') {
    const { meaning, advice } = check;
    return { status, seen: message, meaning, advice, code: 'Unsupported', figures: {} };
  }
  if (error instanceof ChangedOnTheWay) {
    const judged = { status, seen: error.message, meaning: CHANGED_MEANING, advice: CHANGED_ADVICE } as const;
    return { ...judged, code: 'Corrupt', figures: {} };
  }
  const isDenied = code === 'Denied' || code === 'ReadOnly';
  const whenDenied = check.whenDenied ?? 'the credentials in use do not allow it';
  return {
    status,
    seen: message,
    meaning: isDenied ? whenDenied : `this could not be checked (${code})`,
    advice: code === 'NotFound' ? 'check the URI' : sentence(advice),
    code,
    figures: {},
  };
}

async function cleanUp(visit: Visit, { clock }: ExamineOptions): Promise<Finding> {
  const beganMs = clock.monotonicMs();
  const removal = await inTime({ clock, timeoutMs: CLEAN_UP_MS_MAX }, (signal) => visit.remove(signal)).catch(
    (error: unknown): Removal => ({ leftCount: visit.keyCount, error: toCheckpointError(error) }),
  );
  return removalFinding(removal, visit.prefix, clock.monotonicMs() - beganMs);
}

const headOf = ({ id, title }: Check | StoreFact) => ({ id, title });
