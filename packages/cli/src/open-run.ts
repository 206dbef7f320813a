import type {
  CallOptions,
  CheckpointManager,
  CheckpointReference,
  CheckpointSummary,
  ListCheckpointsOptions,
  RetentionPolicy,
  Settings,
} from '@holdfast/core/contract';
import {
  CheckpointError,
  type Clock,
  checkpointName,
  isCheckpointError,
  referenceText,
  throwIfAborted,
  unusableText,
} from '@holdfast/core/contract';
import { askOnceMore } from './ask-once-more.ts';
import type { Call } from './command.ts';
import { buffer, concurrency, givenText, limitRate, versionOf } from './common-options.ts';
import type { Job } from './env.ts';
import { printable } from './format.ts';
import { repeatNotes } from './repeat-notes.ts';

/** Somebody waits at the screen. A job that saves has more patience: the engine's default. */
export const LOOK_TIMEOUT_MS = 60_000;
/** Shorter, so that a store which is down is told as that, and not as a look that took too long. */
const LOOK_RETRY_TIMEOUT_MS = 45_000;
/** What a call that was stopped waits for its manager to close. */
const CLOSE_TIMEOUT_MS = 2000;

/**
 * Opens the manager of a run, gives it to `use`, and closes it whatever happens. `job`: only for a
 * command that writes. `rules`: become those of the run. `isPatient`: it does work that may take
 * hours, and does not give up after a minute; default: with a job. `closeUntilMs`: from then on, by
 * the call's clock that does not go back, nobody waits for the manager to close. `settings`: other
 * than by default.
 */
export async function withRun<T>(
  call: Call,
  options: {
    uri: string;
    job?: Job;
    rules?: RetentionPolicy | undefined;
    isPatient?: boolean;
    closeUntilMs?: number;
    settings?: Partial<Settings>;
    /** See `OpenOptions`. */
    mayShareItsPlace?: boolean;
  },
  use: (manager: CheckpointManager) => Promise<T>,
): Promise<T> {
  const { uri, job, rules, isPatient = job !== undefined } = options;
  // The engine is loaded only now, so that `--help` and `--version` do not wait for it.
  const { openCheckpointManager } = await import('@holdfast/stores');
  const tellRepeat = repeatNotes(call.clock, call.messages);
  const manager = await openCheckpointManager(uri, {
    env: call.env,
    attempt: job?.attempt?.value,
    life: job?.life?.value,
    writer: job?.writer.value,
    retention: rules,
    mayShareItsPlace: options.mayShareItsPlace,
    settings: {
      ...settingsOf(call),
      ...(!isPatient && { recordTimeoutMs: LOOK_TIMEOUT_MS, retryTimeoutMs: LOOK_RETRY_TIMEOUT_MS }),
      ...options.settings,
    },
    logger: {
      log: (level, message, details) => {
        if (level === 'info')
          tellRepeat(message); // the engine's word for repeats
        else call.messages.detail(logLine(level, message, details));
      },
    },
  });
  call.subject.uri = uri; // not before: one that is not accepted may hold a secret
  try {
    throwIfAborted(call.signal);
    return await use(manager);
  } catch (error) {
    throw await askOnceMore(error, manager, call);
  } finally {
    const { closeUntilMs = call.signal.aborted ? call.clock.monotonicMs() + CLOSE_TIMEOUT_MS : undefined } =
      options;
    if (closeUntilMs === undefined) await manager.close();
    else await closeUntil(manager, closeUntilMs, call.clock);
  }
}

/**
 * Closing may take a while, for retention that a commit has begun; what is left of it then goes on
 * while the result is printed.
 */
export async function closeUntil(
  manager: Pick<CheckpointManager, 'close'>,
  untilMs: number,
  clock: Clock,
): Promise<void> {
  const isClosed = new AbortController();
  const leftMs = Math.max(0, untilMs - clock.monotonicMs());
  // it was closed before
  const deadline = clock.sleep(leftMs, isClosed.signal).catch(() => undefined);
  try {
    await Promise.race([manager.close(), deadline]);
  } finally {
    isClosed.abort();
  }
}

function settingsOf(call: Call): Partial<Settings> {
  const bufferBytes = call.get(buffer);
  const requests = call.get(concurrency);
  const saveBytesPerSecondMax = call.get(limitRate);
  return {
    ...(saveBytesPerSecondMax === undefined ? {} : { saveBytesPerSecondMax }),
    ...(bufferBytes === undefined ? {} : { bufferBytes }),
    ...(requests === undefined ? {} : { concurrency: requests }),
  };
}

function logLine(level: string, message: string, details: Record<string, unknown> | undefined): string {
  const shown =
    details === undefined
      ? ''
      : ` ${Object.entries(details)
          .map(([name, item]) => `${name}=${String(item)}`)
          .join(' ')}`;
  return `${level}: ${message}${shown}`;
}

/**
 * The checkpoints of a run that is there. A run begins with its first writer, so an empty one may
 * still be one that nothing has been committed to. `NotFound`: there is no run.
 */
export async function listRun(
  manager: CheckpointManager,
  uri: string,
  options: ListCheckpointsOptions,
): Promise<CheckpointSummary[]> {
  const summaries = await manager.list(options);
  if (summaries.length === 0) await requireRun(manager, uri, options);
  return summaries;
}

/**
 * `NotFound` if nothing was ever begun under this URI. Where there is no run, its neighbours are
 * looked at for the message.
 */
export async function requireRun(
  manager: CheckpointManager,
  uri: string,
  { signal }: CallOptions,
): Promise<void> {
  const entries = await manager.log({ limit: 1, signal });
  if (entries.length > 0) return;
  // Which tells a catalog that is lost from one that never was.
  if ((await manager.latest({ signal })) !== null) return;
  // Only the message depends on it: whatever goes wrong, there is no run here.
  const runsBelow = await manager.runsBelow({ signal }).catch(() => []);
  const names = runsBelow.length === 0 ? '' : `; below it are ${runsBelow.map(printable).join(', ')}`;
  throw new CheckpointError('NotFound', `no run at ${uri}${names}`, {
    context: { store: uri, run: 'missing', ...(runsBelow.length > 0 && { runsBelow }) },
  });
}

/** Runs a call; where it finds nothing and there is no run at all, that is the error. */
export async function expectingRun<T>(
  call: Call,
  manager: CheckpointManager,
  run: () => Promise<T>,
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (isCheckpointError(error, 'NotFound')) await requireRun(manager, call.subject.uri as string, call);
    throw error;
  }
}

/**
 * Why `latest` finds nothing in a run that is there: nothing was ever committed to it, or nothing
 * of that can be loaded (`Corrupt`). A restart may begin anew only after the former (`NotFound`).
 */
export async function nothingToLoad(
  manager: Pick<CheckpointManager, 'list'>,
  uri: string,
  { signal }: CallOptions,
): Promise<CheckpointError> {
  const there = await manager.list({ signal });
  // One that was committed after the caller's look explains nothing.
  if (!there.some(({ isLatest }) => !isLatest)) return emptyRun(uri);
  const retired = there.find(({ state, isLeftBehind }) => state === 'retiring' && !isLeftBehind);
  const left = there.find(({ state, isLeftBehind }) => state === 'live' && isLeftBehind);
  const nameOf = ({ id, isLeftBehind }: CheckpointSummary) => checkpointName(id, isLeftBehind);
  return new CheckpointError('Corrupt', `the run at ${uri}: ${unusableText(there)}`, {
    context: {
      ...{ store: uri, run: 'unusable' },
      ...(retired && { retired: nameOf(retired) }),
      ...(left && { leftBehind: nameOf(left) }),
    },
  });
}

/**
 * Why `get` finds nothing: there is no such version, or it is quarantined. `given`: as it was asked
 * for.
 */
export async function versionNotGot(
  manager: Pick<CheckpointManager, 'list'>,
  given: CheckpointReference,
  uri: string,
  { signal }: CallOptions,
): Promise<CheckpointError> {
  const context = { store: uri, version: versionOf(given) };
  const name = givenText(given);
  const found = (await manager.list({ signal })).find(
    ({ id, isLeftBehind }) => referenceText(id) === name || checkpointName(id, isLeftBehind) === name,
  );
  if (found?.state === 'quarantined')
    return new CheckpointError('Corrupt', `version ${name} is quarantined: ${found.reason}`, { context });
  return new CheckpointError('NotFound', `no version ${name} in ${uri}`, { context });
}

function emptyRun(uri: string): CheckpointError {
  return new CheckpointError('NotFound', `the run at ${uri} has no checkpoint yet`, {
    context: { store: uri, run: 'empty' },
  });
}
