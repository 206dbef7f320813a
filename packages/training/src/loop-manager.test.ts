import { CheckpointError } from '@holdfast/core/contract';
import { beforeEach, expect, test } from 'vitest';
import type { TrainingCheckpointManager } from './checkpoints.ts';
import { RecoverableError } from './errors.ts';
import { LoopManager } from './loop-manager.ts';

let warnings: string[];
beforeEach(() => {
  warnings = [];
});

const logger = { log: (level: string, message: string) => void (level === 'warn' && warnings.push(message)) };

function aManager(more: Partial<TrainingCheckpointManager> = {}): TrainingCheckpointManager {
  const unused = () => expect.unreachable('nothing is loaded or saved here');
  return { create: unused, get: unused, latest: unused, list: unused, ...more };
}

const failing = (error: Error) => async () => {
  throw error;
};

const away = new CheckpointError('Unavailable', 'no answer');
const denied = new CheckpointError('Denied', 'not allowed');

test('an opener that fails for a while makes the workers meet again; any other failure is thrown', async () => {
  const error = await new LoopManager(failing(away), logger).enter(0).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(RecoverableError);
  expect(error).toMatchObject({ message: 'no checkpoint manager could be opened: no answer', cause: away });
  await expect(new LoopManager(failing(denied), logger).enter(0)).rejects.toBe(denied);
});

test('an opener that opens something else is InvalidArgument', async () => {
  const manager = new LoopManager(() => ({}) as never, logger);
  await expect(manager.enter(0)).rejects.toMatchObject({
    code: 'InvalidArgument',
    message: expect.stringContaining('what the function given to setCheckpointManager opened'),
  });
});

test('a run that cannot be joined now is joined by the first save; any other failure is thrown', async () => {
  const opened = aManager({ join: failing(away) });
  const manager = new LoopManager(() => opened, logger);
  await manager.enter(0);
  expect(manager.current).toBe(opened);
  expect(warnings).toEqual(['the run could not be joined; the next save tries again: no answer']);
  await expect(new LoopManager(() => aManager({ join: failing(denied) }), logger).enter(0)).rejects.toBe(
    denied,
  );
});

test('another rank opens nothing, and has no manager', async () => {
  const manager = new LoopManager(() => expect.unreachable('this worker is not rank 0'), logger);
  await manager.enter(1);
  expect(() => manager.current).toThrow('the manager of this world is not open');
});

test('a manager that the caller has opened is used in all worlds, and is not closed', async () => {
  const given = aManager({ join: failing(denied), close: failing(denied) });
  const manager = new LoopManager(given, logger);
  for (const rank of [0, 1, 0]) {
    await manager.enter(rank);
    manager.leave();
  }
  await manager.close();
  expect(manager.current).toBe(given);
  expect(warnings).toEqual([]);
});

test('close waits for all that was opened, tells of a failure, and closes what is opened later', async () => {
  const closing = Promise.withResolvers<void>();
  const managers = [
    aManager({ close: () => closing.promise }),
    aManager({ close: failing(denied) }),
    aManager(),
  ];
  const manager = new LoopManager(() => managers.shift() ?? expect.unreachable('too many'), logger);
  await manager.enter(0);
  await manager.enter(1);
  await manager.enter(0);
  await manager.enter(1);
  await manager.enter(0);
  let isClosed = false;
  const closed = manager.close().then(() => {
    isClosed = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(isClosed).toBe(false);
  closing.resolve();
  await closed;
  expect(warnings).toEqual(['a checkpoint manager could not be closed: not allowed']);

  const opening = Promise.withResolvers<TrainingCheckpointManager>();
  const late = new LoopManager(() => opening.promise, logger);
  const entering = late.enter(0);
  await late.close();
  let closeCount = 0;
  opening.resolve(
    aManager({
      join: () => expect.unreachable('training is over'),
      close: async () => {
        closeCount += 1;
      },
    }),
  );
  await entering;
  expect(closeCount).toBe(1);
});
