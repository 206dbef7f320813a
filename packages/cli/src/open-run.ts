import type {
  CallOptions,
  CheckpointReference,
  CheckpointSummary,
  ListCheckpointsOptions,
  LocalFiles,
  RetentionPolicy,
  RunManager,
  Settings,
} from '@holdfast/core/contract';
import {
  CheckpointError,
  type Clock,
  checkpointName,
  hasRun,
  isCheckpointError,
  referenceText,
  throwIfAborted,
  unusableText,
} from '@holdfast/core/contract';
import { askOnceMore } from './ask-once-more.ts';
import type { Call } from './command.ts';
import { buffer, concurrency, givenText, limitRate, versionOf, workers } from './common-options.ts';
import { engineLogger } from './engine-log.ts';
import type { Job } from './env.ts';
import { printable } from './format.ts';

/** A person waits at the screen. A job that saves is more patient: the engine's default. */
export const LOOK_TIMEOUT_MS = 60_000;
/**
 * Shorter, so that an unavailable store is reported as that, and not as a timeout of the whole
 * call.
 */
export const LOOK_RETRY_TIMEOUT_MS = 45_000;
/** How long an aborted call waits for its manager to close. */
const CLOSE_TIMEOUT_MS = 2000;

/**
 * Opens the manager of a run, passes it to `use`, and always closes it.
 * - `job`: only for a command that writes.
 * - `rules`: become those of the run.
 * - `isPatient`: the command may take hours, and does not give up after a minute. Default: true
 *   with a job.
 * - `closeUntilMs`: limit for closing the manager, by the call's monotonic clock.
 * - `settings`: those that differ from the defaults.
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
    files?: LocalFiles;
  },
  use: (manager: RunManager) => Promise<T>,
): Promise<T> {
  const { uri, job, rules, isPatient = job !== undefined } = options;
  // The engine is loaded here, so that `--help` and `--version` do not wait for it.
  const { openCheckpointManager } = await import('@holdfast/stores');
  const manager = await openCheckpointManager(uri, {
    env: call.env,
    attempt: job?.attempt?.value,
    life: job?.life?.value,
    writer: job?.writer.value,
    retention: rules,
    mayShareItsPlace: options.mayShareItsPlace,
    files: options.files,
    settings: {
      ...settingsOf(call),
      ...(!isPatient && { recordTimeoutMs: LOOK_TIMEOUT_MS, retryTimeoutMs: LOOK_RETRY_TIMEOUT_MS }),
      ...options.settings,
    },
    logger: engineLogger(call),
  });
  call.subject.uri = uri; // Only now: a URI that was not accepted may hold a secret.
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
 * Closing may take a while because of retention that a commit has started. After the limit the rest
 * continues while the result is printed.
 */
export async function closeUntil(
  manager: Pick<RunManager, 'close'>,
  untilMs: number,
  clock: Clock,
): Promise<void> {
  const isClosed = new AbortController();
  const leftMs = Math.max(0, untilMs - clock.monotonicMs());
  // It was closed before.
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
  const threads = call.get(workers);
  return {
    ...(saveBytesPerSecondMax === undefined ? {} : { saveBytesPerSecondMax }),
    ...(bufferBytes === undefined ? {} : { bufferBytes }),
    ...(requests === undefined ? {} : { concurrency: requests }),
    ...(threads === undefined ? {} : { workers: threads }),
  };
}

/**
 * The checkpoints of an existing run. A run begins with its first writer, so a run may be empty.
 * `NotFound`: there is no run.
 */
export async function listRun(
  manager: RunManager,
  uri: string,
  options: ListCheckpointsOptions,
): Promise<CheckpointSummary[]> {
  const summaries = await manager.list(options);
  if (summaries.length === 0) await requireRun(manager, uri, options);
  return summaries;
}

/** Throws `NotFound` if no run was ever begun under this URI. The message names runs nearby. */
export async function requireRun(manager: RunManager, uri: string, { signal }: CallOptions): Promise<void> {
  if (await hasRun(manager, { signal })) return;
  // Only the message depends on it. Even if it fails, there is no run here.
  const runsBelow = await manager.admin.runsBelow({ signal }).catch(() => []);
  const names = runsBelow.length === 0 ? '' : `; below it are ${runsBelow.map(printable).join(', ')}`;
  throw new CheckpointError('NotFound', `no run at ${uri}${names}`, {
    context: { store: uri, run: 'missing', ...(runsBelow.length > 0 && { runsBelow }) },
  });
}

/** Runs a call. If it finds nothing because there is no run at all, throws that error. */
export async function expectingRun<T>(call: Call, manager: RunManager, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (isCheckpointError(error, 'NotFound')) await requireRun(manager, call.subject.uri as string, call);
    throw error;
  }
}

/**
 * Explains why `latest` finds nothing in an existing run: nothing was ever committed (`NotFound`),
 * or nothing committed can be loaded (`Corrupt`). Only after `NotFound` may a restart begin anew.
 * `Unavailable`: a checkpoint was committed meanwhile, or the store had not shown it before.
 */
export async function nothingToLoad(
  manager: Pick<RunManager, 'list'>,
  uri: string,
  { signal }: CallOptions,
): Promise<CheckpointError> {
  const there = await manager.list({ signal });
  const latest = there.find(({ isLatest }) => isLatest);
  if (latest !== undefined) {
    const message = `the store listed no checkpoint of ${uri} at first, and then version ${latest.version}`;
    return new CheckpointError('Unavailable', message, { context: { store: uri } });
  }
  if (there.length === 0) return emptyRun(uri);
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
 * Explains why `get` finds nothing: there is no such version, or it is quarantined. `given`: the
 * version as requested.
 */
export async function whyNoVersion(
  manager: Pick<RunManager, 'list'>,
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
