import { CheckpointError, type CheckpointManager } from '@holdfast/core';
import { describe, expect, it } from 'vitest';
import type { TrainingCheckpoint, TrainingCheckpointManager } from './checkpoints.ts';
import { NonRetryableException, RecoverableError } from './errors.ts';
import { loadNewestCheckpoint } from './load-checkpoint.ts';
import { getCheckpointManager, setCheckpointManager } from './registry.ts';
import { State } from './state.ts';

/** Text whose load rejects bytes that do not begin with "ok". */
class Text extends State<string> {
  value = 'initial';

  async sync(): Promise<void> {
    expect.unreachable('nobody syncs here');
  }

  override apply(snapshot: string | null): void {
    this.value = snapshot ?? this.value;
  }

  override async load(stream: ReadableStream<Uint8Array>): Promise<void> {
    for await (const chunk of stream) this.value = Buffer.from(chunk).toString();
    if (!this.value.startsWith('ok')) throw new RangeError(`${this.value}: no number`);
  }
}

/**
 * Newest last; a stream fails with the given error. Records which versions were read and cancelled.
 */
function managerOf(contents: readonly (string | Error)[]) {
  const cancelled: bigint[] = [];
  const checkpointOf = (version: bigint): TrainingCheckpoint | null => {
    const content = contents[Number(version)];
    if (content === undefined) return null;
    return {
      version,
      openOutputStream: () => expect.unreachable('it is committed'),
      openInputStream: (key) => {
        expect(key).toBe('default');
        return new ReadableStream<Uint8Array>({
          pull: (controller) => {
            if (content instanceof Error) throw content;
            controller.enqueue(Buffer.from(content));
            controller.close();
          },
          cancel: () => void cancelled.push(version),
        });
      },
      commit: async () => undefined,
      discard: async () => undefined,
    };
  };
  const numbers = contents.map((_, index) => BigInt(index)).toReversed();
  const manager: TrainingCheckpointManager = {
    create: async () => expect.unreachable('nothing is saved'),
    get: async (version) => checkpointOf(version),
    latest: async () => (numbers[0] === undefined ? null : checkpointOf(numbers[0])),
    list: async () => numbers.map((version) => ({ version })),
  };
  return { manager, cancelled };
}

async function load(manager: TrainingCheckpointManager, state: Text) {
  const warnings: string[] = [];
  const version = await loadNewestCheckpoint(manager, state, {
    logger: { log: (level, message) => void (level === 'warn' && warnings.push(message)) },
    reset: () => {
      state.value = 'initial';
    },
  });
  return { version, warnings };
}

const corrupt = new CheckpointError('Corrupt', 'part 3: bad checksum');

it('loads a first checkpoint that is committed while it looks', async () => {
  const { manager } = managerOf(['ok']);
  let lookCount = 0;
  const late = { ...manager, latest: async () => (lookCount++ === 0 ? null : manager.latest()) };
  expect(await load(late, new Text())).toEqual({ version: 0n, warnings: [] });
});

describe('loadNewestCheckpoint', () => {
  it('none that can be loaded, though some are there: Corrupt, and no start from scratch', async () => {
    const { manager } = managerOf(['ok 0', 'ok 1']);
    const state = new Text();
    const loading = load({ ...manager, latest: async () => null }, state);
    const message = expect.stringContaining('2 checkpoints are there, but none can be loaded');
    await expect(loading).rejects.toMatchObject({ code: 'Corrupt', message });
    expect(state.value).toBe('initial');
  });

  it('none at all is null, and leaves the state as it is', async () => {
    const state = new Text();
    expect(await load(managerOf([]).manager, state)).toEqual({ version: null, warnings: [] });
    expect(state.value).toBe('initial');
  });

  it('the newest is loaded, and the others are not asked for', async () => {
    const state = new Text();
    const { manager } = managerOf(['ok old', 'ok new']);
    const single = { ...manager, list: async () => expect.unreachable('nothing is wrong') };
    expect(await load(single, state)).toEqual({ version: 1n, warnings: [] });
    expect(state.value).toBe('ok new');
  });

  it.each([
    { title: 'damaged', content: corrupt, reason: 'part 3: bad checksum' },
    {
      title: 'without the key',
      content: new CheckpointError('NotFound', 'no such file'),
      reason: 'no such file',
    },
    {
      title: 'a file that is not there',
      content: Object.assign(new Error('no such file: 2.ckpt'), { code: 'ENOENT', syscall: 'open' }),
      reason: 'checkpoint 2 could not be loaded: Error: no such file: 2.ckpt',
    },
    {
      title: 'of which the state makes nothing',
      content: 'torn',
      reason: 'checkpoint 2 could not be loaded: RangeError: torn: no number',
    },
  ])(
    'the newest is $title: the next older one is loaded, and a warning says so',
    async ({ content, reason }) => {
      const state = new Text();
      expect(await load(managerOf(['ok 0', 'ok 1', content]).manager, state)).toEqual({
        version: 1n,
        warnings: [`checkpoint 2 cannot be used (${reason}): training continues from checkpoint 1 instead`],
      });
      expect(state.value).toBe('ok 1');
    },
  );

  it('several are damaged, and one is gone meanwhile: the newest that is whole is loaded', async () => {
    const state = new Text();
    const { manager } = managerOf(['ok 0', 'ok 1', corrupt, 'torn']);
    const shrinking = {
      ...manager,
      get: (version: bigint) => (version === 1n ? Promise.resolve(null) : manager.get(version)),
    };
    expect((await load(shrinking, state)).version).toBe(0n);
    expect(state.value).toBe('ok 0');
  });

  it('the state is as it was before each one that is tried', async () => {
    const seen: string[] = [];
    class Watching extends Text {
      override async load(stream: ReadableStream<Uint8Array>): Promise<void> {
        seen.push(this.value);
        await super.load(stream);
      }
    }
    await load(managerOf(['ok 0', 'torn 1', 'torn 2']).manager, new Watching());
    expect(seen).toEqual(['initial', 'initial', 'initial']);
  });

  it('none is whole: the error of the newest, never a beginning from scratch', async () => {
    await expect(load(managerOf(['torn 0', corrupt]).manager, new Text())).rejects.toBe(corrupt);
    await expect(load(managerOf(['torn 0']).manager, new Text())).rejects.toMatchObject({
      code: 'Corrupt',
      message: 'checkpoint 0 could not be loaded: RangeError: torn 0: no number',
      context: { version: 0n },
    });
  });

  it.each([
    new CheckpointError('Unavailable', 'no answer'),
    new CheckpointError('UnsupportedFormat', 'of a newer version'),
    new RecoverableError('a worker is gone'),
    new NonRetryableException('wrong machine'),
    Object.assign(new Error('too many open files'), { code: 'EMFILE', syscall: 'open' }),
  ])('$name "$message" says nothing about the bytes: no older one is tried', async (error) => {
    await expect(load(managerOf(['ok 0', error]).manager, new Text())).rejects.toBe(error);
  });

  it('versions above the latest, which a rollback of the run left behind, are not tried', async () => {
    const { manager } = managerOf(['ok 0', 'torn 1', 'ok 2']);
    const rolledBack = { ...manager, latest: () => manager.get(1n) };
    const state = new Text();
    expect((await load(rolledBack, state)).version).toBe(0n);
  });

  it('a state that reads a part only: the rest is cancelled, so nothing is held any longer', async () => {
    class Lazy extends Text {
      override async load(): Promise<void> {
        this.value = 'ok unread';
      }
    }
    const { manager, cancelled } = managerOf(['ok 0']);
    await load(manager, new Lazy());
    expect(cancelled).toEqual([0n]);
  });
});

describe('setCheckpointManager', () => {
  it('takes any manager, that of a run as it is, and null again', () => {
    expect(getCheckpointManager()).toBeNull();
    const { manager } = managerOf([]);
    setCheckpointManager(manager);
    expect(getCheckpointManager()).toBe(manager);
    const acceptsRun: (run: CheckpointManager) => void = setCheckpointManager;
    expect(acceptsRun).toBe(setCheckpointManager);
    setCheckpointManager(null);
    expect(getCheckpointManager()).toBeNull();
  });
});
