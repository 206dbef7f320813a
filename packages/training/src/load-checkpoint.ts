import { CheckpointError, isCheckpointError, type Logger } from '@holdfast/core/contract';
import { errnoOf } from '@holdfast/local-files';
import type { TrainingCheckpoint, TrainingCheckpointManager } from './checkpoints.ts';
import { NonRetryableException, RecoverableError, StopException } from './errors.ts';
import { STATE_KEY } from './save-checkpoint.ts';
import type { State } from './state.ts';

/**
 * Loads the newest whole checkpoint into the state and resolves to its version, or to `null` if
 * there is no checkpoint at all. A checkpoint that is damaged, or that `state.load` cannot read, is
 * skipped with a warning. `reset` is called before the next older one is tried.
 *
 * Rejects with the error of the newest checkpoint if none is whole: starting from scratch would
 * silently lose the training so far. Rejects with `NotFound` if `list` has checkpoints but there is
 * no latest, for example when all are quarantined.
 *
 * Costs one `latest`. A first start and a failure cost one `list`; each older checkpoint costs one
 * `get`.
 */
export async function loadNewestCheckpoint(
  manager: TrainingCheckpointManager,
  state: State,
  { logger, reset }: { logger: Logger; reset: () => void },
): Promise<bigint | null> {
  const latest = (await manager.latest()) ?? (await latestByNow(manager));
  if (latest === null) {
    logger.log('info', 'there is no checkpoint to load');
    return null;
  }
  const failure = await tryLoading(latest, state);
  if (failure === null) return latest.version;

  for (const version of await olderVersions(manager, latest.version)) {
    const older = await manager.get(version);
    if (older === null) continue;
    reset();
    if ((await tryLoading(older, state)) !== null) continue;
    logger.log(
      'warn',
      `checkpoint ${latest.version} cannot be used (${failure.message}): training continues from checkpoint ${version} instead`,
      { failure, latest: latest.version, version },
    );
    return version;
  }
  throw failure;
}

/**
 * `null`: this is a first start. Another process may have committed the first checkpoint since
 * there was no latest, so a list that is not empty is no proof that there is none.
 */
async function latestByNow(manager: TrainingCheckpointManager): Promise<TrainingCheckpoint | null> {
  const { length } = await manager.list();
  if (length === 0) return null;
  const latest = await manager.latest();
  if (latest !== null) return latest;
  const there = length === 1 ? '1 checkpoint is' : `${length} checkpoints are`;
  const message = `${there} there, but none can be loaded: all are quarantined, retired or left behind by a rollback`;
  throw new CheckpointError('Corrupt', message, { context: { run: 'unusable' } });
}

/** Versions below `below` only: a rollback of the run leaves newer ones in the list. */
async function olderVersions(
  manager: TrainingCheckpointManager,
  below: bigint,
): Promise<ReadonlySet<bigint>> {
  const versions = (await manager.list()).map(({ version }) => version);
  return new Set(versions.filter((version) => version < below));
}

/**
 * Resolves to `null` if the state was loaded, otherwise to why the checkpoint is unusable. Throws
 * errors that say nothing about the checkpoint.
 */
async function tryLoading(checkpoint: TrainingCheckpoint, state: State): Promise<CheckpointError | null> {
  let stream: ReadableStream<Uint8Array> | null = null;
  try {
    stream = checkpoint.openInputStream(STATE_KEY);
    await state.load(stream);
    return null;
  } catch (error) {
    if (!isAboutBytes(error)) throw error;
    return isCheckpointError(error)
      ? error
      : new CheckpointError(
          'Corrupt',
          `checkpoint ${checkpoint.version} could not be loaded: ${String(error)}`,
          {
            cause: error,
            context: { version: checkpoint.version },
          },
        );
  } finally {
    // A stream that is read only in part would hold its file, or the lease of a run, until the
    // process ends. The state is loaded anyway.
    if (stream !== null && !stream.locked) await stream.cancel().catch(() => undefined);
  }
}

/**
 * Whether an older checkpoint may work: the bytes are damaged or missing, or the state cannot read
 * them. A store that does not answer or refuses says nothing about the bytes; neither does a system
 * error.
 */
function isAboutBytes(error: unknown): boolean {
  if (isCheckpointError(error)) return error.code === 'Corrupt' || error.code === 'NotFound';
  const errno = errnoOf(error);
  if (errno !== undefined) return errno === 'ENOENT';
  const isOfLoop =
    error instanceof RecoverableError ||
    error instanceof NonRetryableException ||
    error instanceof StopException;
  return !isOfLoop;
}
