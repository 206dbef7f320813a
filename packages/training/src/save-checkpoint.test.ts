import { crc32c, createCheckpointManager, silentLogger } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { saveCheckpoint } from './save-checkpoint.ts';
import { State } from './state.ts';

class Saved extends State {
  readonly ending: 'closed' | 'released' | 'locked';
  constructor(ending: 'closed' | 'released' | 'locked') {
    super();
    this.ending = ending;
  }
  override snapshot() {
    return null;
  }
  override apply() {
    // Applies nothing.
  }
  override async sync() {
    // There is only one worker.
  }
  override async save(stream: WritableStream<Uint8Array>): Promise<void> {
    const writer = stream.getWriter();
    await writer.write(new Uint8Array([1]));
    if (this.ending === 'closed') await writer.close();
    if (this.ending !== 'locked') writer.releaseLock();
  }
}

const save = async (state: State) => {
  await using manager = createCheckpointManager({ store: new MemoryStore(new MemoryBucket({ crc32c })) });
  return await saveCheckpoint(manager, state, silentLogger);
};

test.each(['closed', 'released'] as const)(
  'a save that leaves its stream %s is committed',
  async (ending) => {
    expect(await save(new Saved(ending))).toBe(0n);
  },
);

test('one that leaves it locked is told what to do', async () => {
  await expect(save(new Saved('locked'))).rejects.toMatchObject({
    code: 'InvalidArgument',
    message: expect.stringMatching(/^save\(\) of Saved has left its stream locked.*releaseLock\(\)/),
  });
});
