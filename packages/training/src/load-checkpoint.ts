import { CheckpointError, isCheckpointError, type Logger } from '@holdfast/core/contract';
import { errnoOf } from '@holdfast/local-files';
import type { TrainingCheckpoint, TrainingCheckpointManager } from './checkpoints.ts';
import { NonRetryableException, RecoverableError, StopException } from './errors.ts';
import { STATE_KEY } from './save-checkpoint.ts';
import type { State } from './state.ts';

/**
 * Loads the newest checkpoint that is whole into the state, and resolves to its version; `null`: there is none at all. One that is damaged,
 * or of whose bytes `state.load` makes nothing, is passed over with a warning, and `reset` is called before the next older one is tried.
 * Rejects with the error of the newest if none is whole: to begin from scratch unasked would throw the run away. So it does with `NotFound`
 * where `list` has checkpoints and there is no latest, as when all are quarantined. Costs one `latest`; at a first start and after a
 * failure one `list`, and one `get` for each older one.
 */
export async function loadNewestCheckpoint(
  manager: TrainingCheckpointManager,
  state: State,
  { logger, reset }: { logger: Logger; reset: () => void },
): Promise<bigint | null> {
  const latest = await manager.latest();
  if (latest === null) {
    await assertFirstStart(manager);
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
      `checkpoint ${latest.version} is of no use (${failure.message}): training goes on from checkpoint ${version} instead`,
      { failure, latest: latest.version, version },
    );
    return version;
  }
  throw failure;
}

async function assertFirstStart(manager: TrainingCheckpointManager): Promise<void> {
  const { length } = await manager.list();
  if (length === 0) return;
  const there = length === 1 ? '1 checkpoint is' : `${length} checkpoints are`;
  const message = `${there} there, and none can be loaded: all are quarantined, retired or left behind by a rollback`;
  throw new CheckpointError('NotFound', message, { context: { run: 'unusable' } });
}

/** Without those that a rollback of the run left above its latest. */
async function olderVersions(
  manager: TrainingCheckpointManager,
  below: bigint,
): Promise<ReadonlySet<bigint>> {
  const versions = (await manager.list()).map(({ version }) => version);
  return new Set(versions.filter((version) => version < below));
}

/** `null`: the state is the checkpoint's. Otherwise why the checkpoint is of no use; throws what says nothing about it. */
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
    // Whoever reads a part only would hold the file, or the lease of a run, until the end of the process. The state is loaded all the same.
    if (stream !== null && !stream.locked) await stream.cancel().catch(() => undefined);
  }
}

/**
 * Whether another checkpoint may do better: its bytes are damaged, missing, or make no sense to the state. A store that does not answer, or
 * refuses, says nothing about the bytes, nor does the system.
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
