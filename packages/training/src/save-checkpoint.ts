import { CheckpointError, type Logger } from '@holdfast/core/contract';
import type { TrainingCheckpointManager } from './checkpoints.ts';
import type { Saver, SaveStart } from './saving/saver.ts';
import type { State } from './state.ts';

/** The only key that the train loop uses; the same as in torchelastic. */
export const STATE_KEY = 'default';

/**
 * Saves the state as the next checkpoint: writes its bytes, closes the stream, commits. Discards
 * the checkpoint if a step fails. Resolves to its version.
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
      // Throw the save's error, not this one: a checkpoint that was not discarded only takes space.
      logger.log('warn', `checkpoint ${checkpoint.version}, which failed, could not be discarded`, {
        failure,
      });
    });
    throw error;
  }
}

/** Resolves when the state is copied and may change again; the saver then writes the copy. */
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
    `save() of ${state.constructor.name} has left its stream locked, so its end is unknown: call releaseLock() of the writer, even after close()`,
  );
}

/** A `save` that ends with `pipeTo` has already closed the stream. */
async function endStream(stream: WritableStream<Uint8Array>): Promise<void> {
  const writer = stream.getWriter();
  const isOpen = await Promise.race([writer.closed, Promise.resolve(true)]);
  if (isOpen) await writer.close();
}
