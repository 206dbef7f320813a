import { CheckpointError, type Logger } from '@holdfast/core/contract';
import type { TrainingCheckpointManager } from './checkpoints.ts';
import type { Saver, SaveStart } from './saving/saver.ts';
import type { State } from './state.ts';

/** The one key that the train loop uses; torchelastic's. */
export const STATE_KEY = 'default';

/**
 * Saves the state as the next checkpoint: its bytes, the end of the stream, the commit, in this order. What fails on the way is discarded.
 * Resolves to its version.
 */
export async function saveCheckpoint(
  manager: TrainingCheckpointManager,
  state: State,
  logger: Logger,
): Promise<bigint> {
  const checkpoint = await manager.create();
  try {
    await writeState(state, (key) => checkpoint.openOutputStream(key));
    await checkpoint.commit();
    return checkpoint.version;
  } catch (error) {
    await checkpoint.discard().catch((failure: unknown) => {
      // The error of the save is the one that matters; what is left takes room only.
      logger.log('warn', `checkpoint ${checkpoint.version}, which failed, could not be discarded`, {
        failure,
      });
    });
    throw error;
  }
}

/** Resolves when the state is copied and may change again; the rest is the saver's. */
export function startSave(saver: Saver, state: State): Promise<SaveStart> {
  return saver.saveStreams((open) => writeState(state, open));
}

async function writeState(state: State, open: (key: string) => WritableStream<Uint8Array>): Promise<void> {
  const stream = open(STATE_KEY);
  await state.save(stream);
  if (stream.locked) throw stillLocked(state);
  await endStream(stream);
}

function stillLocked(state: State): CheckpointError {
  return new CheckpointError(
    'InvalidArgument',
    `save() of ${state.constructor.name} has left its stream locked, so that its end cannot be told: call releaseLock() of the writer, also after close()`,
  );
}

/** A `save` that ends in `pipeTo` has closed the stream itself. */
async function endStream(stream: WritableStream<Uint8Array>): Promise<void> {
  const writer = stream.getWriter();
  const isOpen = await Promise.race([writer.closed, Promise.resolve(true)]);
  if (isOpen) await writer.close();
}
