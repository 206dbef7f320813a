import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { RecoverableError, StopException, StopIteration } from './errors.ts';
import { LocalCoordinator } from './local-coordinator.ts';
import { State } from './state.ts';
import { train } from './train.ts';

class Sum extends State<number> {
  value = 0;
  worlds: string[] = [];

  async sync(worldSize: number, rank: number): Promise<void> {
    this.worlds.push(`${rank} of ${worldSize}`);
  }
}

describe('LocalCoordinator', () => {
  it('trains alone, in one world, until there is no data left', async () => {
    const state = new Sum();
    const data = [1, 2, 3];
    await train(
      new LocalCoordinator(),
      (sum) => {
        const next = data.shift();
        if (next === undefined) throw new StopIteration('no data left');
        sum.value += next;
      },
      state,
    );
    expect(state).toMatchObject({ value: 6, worlds: ['0 of 1'] });
  });

  it('a failed step is repeated, and what the process is warned of without a logger says why', async () => {
    const warned = once(process, 'warning');
    const coordinator = new LocalCoordinator();
    const state = new Sum();
    await train(
      coordinator,
      (sum) => {
        sum.value += 1;
        if (sum.value === 1) throw new RecoverableError('the disk was busy');
        coordinator.stop();
      },
      state,
    );
    expect(state.worlds).toEqual(['0 of 1', '0 of 1']);
    expect(await warned).toMatchObject([
      { name: 'HoldfastTraining', message: 'recoverable failure 1: the disk was busy' },
    ]);
  });

  it('stop ends training after the present step', async () => {
    const coordinator = new LocalCoordinator();
    const state = new Sum();
    await train(
      coordinator,
      (sum) => {
        sum.value += 1;
        if (sum.value === 5) coordinator.stop();
      },
      state,
    );
    expect(state.value).toBe(5);
    await expect(coordinator.rendezvous()).rejects.toBeInstanceOf(StopException);
  });

  it('a gathered message is a copy', async () => {
    const world = await new LocalCoordinator().rendezvous();
    const message = Uint8Array.of(1);
    const gathered = await world.allGather(message);
    message[0] = 2;
    expect(gathered).toEqual([Uint8Array.of(1)]);
    await world.barrier();
  });
});
