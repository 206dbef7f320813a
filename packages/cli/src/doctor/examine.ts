import {
  abortError,
  CheckpointError,
  type Clock,
  type StoreFact,
  toCheckpointError,
} from '@holdfast/core/contract';
import { sentence } from '../advice.ts';
import { formatDuration, formatPlural } from '../format.ts';
import { BrokenPromise, type Check, type Finding, type Outcome } from './check.ts';
import { Probe } from './probe.ts';
import { type Removal, Visit, type VisitOptions } from './visit.ts';

export interface ExamineOptions extends VisitOptions {
  readonly checks: readonly Check[];
  /** For each check. */
  readonly timeoutMs: number;
  /** Stops it; what was put into the store is removed nevertheless. */
  readonly signal: AbortSignal;
  readonly onStart?: (check: Check) => void;
  /** Told of each finding as soon as it is known. */
  readonly onFinding?: (finding: Finding) => void;
}

export interface Examination {
  /** In the order of the checks; the last one says whether all was removed. */
  readonly findings: readonly Finding[];
  /** Requests that were repeated because of temporary errors. */
  readonly repeatCount: number;
}

/** Asks a store everything, one check after the other. Rejects only when the signal fires, with its reason, and after removing all. */
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

/** One finding, or one for each fact. None: it was interrupted. */
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

/** However short the checks are to be: what they left is to go. */
const CLEAN_UP_MS_MAX = 30_000;

/** Long enough for calls that were stopped to end, so that they put nothing there after all was removed. */
const ENDING_MS_MAX = 2000;

/** Runs it until it ends, or its time is up, or everything is to stop; whatever it does then, this ends. */
async function inTime<T>(
  { clock, timeoutMs, signal }: { clock: Clock; timeoutMs: number; signal?: AbortSignal },
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timer = new AbortController();
  const deadline = new AbortController();
  const stop = AbortSignal.any([deadline.signal, ...(signal === undefined ? [] : [signal])]);
  const stopped = new Promise<never>((_, reject) => {
    stop.addEventListener('abort', () => reject(abortError(stop)), { once: true });
  });
  void clock.sleep(timeoutMs, timer.signal).then(
    () => deadline.abort(new CheckpointError('TimedOut', `not done within ${formatDuration(timeoutMs)}`)),
    () => undefined, // it ended in time
  );
  const running = run(stop);
  try {
    return await Promise.race([running, stopped]);
  } catch (error) {
    await atMost(ENDING_MS_MAX, clock, running);
    throw error;
  } finally {
    timer.abort();
  }
}

/** Waits for the end of it, whichever it is, and not for ever. Leaves no timer behind. */
async function atMost(ms: number, clock: Clock, ending: Promise<unknown>): Promise<void> {
  const ended = new AbortController();
  const quietly = () => undefined;
  await Promise.race([ending.then(quietly, quietly), clock.sleep(ms, ended.signal)]);
  ended.abort();
}

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
  if (error instanceof BrokenPromise) {
    const { meaning, advice } = check;
    return { status, seen: error.message, meaning, advice, code: 'Unsupported', figures: {} };
  }
  const { code, message, advice } = toCheckpointError(error);
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
  const common = {
    id: 'clean-up',
    title: 'clean up',
    because: null,
    figures: { leftCount: removal.leftCount },
  };
  const durationMs = clock.monotonicMs() - beganMs;
  if (removal.error === null) {
    const nothing = { meaning: '', advice: '', code: null, durationMs };
    return { ...common, status: 'ok', seen: `nothing is left below ${visit.prefix}`, ...nothing };
  }
  return {
    ...common,
    status: 'degraded',
    seen: `up to ${formatPlural(removal.leftCount, 'object')} left below ${visit.prefix}: ${removal.error.message}`,
    meaning: 'they belong to no run and do no harm',
    advice: `delete what lies below ${visit.prefix}`,
    code: removal.error.code,
    durationMs,
  };
}

const headOf = ({ id, title }: Check | StoreFact) => ({ id, title });
