import type { ObjectStore, RunManager, WriterPosition } from '@holdfast/core';
import { openWithLimits } from '@holdfast/core/internal/manager/manager';
import {
  type FaultPlan,
  FaultyStore,
  type LateEffects,
  type SeededRandom,
  seededFaults,
} from '@holdfast/testkit';
import { ScheduledStore } from './scheduled-store.ts';
import type { Scheduled, Scheduler } from './scheduler.ts';
import type { Story } from './story.ts';
import type { Trace } from './trace.ts';

/** Relative speeds of processes. Some hardly move, as after a long pause. */
const PACES = [1, 1, 1, 0.3, 0.03];

export interface ProcessOptions {
  readonly name: string;
  readonly attempt?: string | undefined;
  readonly writer?: WriterPosition | undefined;
  readonly life?: string | undefined;
  readonly onDeath?: (() => void) | undefined;
  /** Present speed of the process. Default: one constant pace, drawn at random. */
  readonly pace?: (() => number) | undefined;
  /** Faults at some calls, in addition to the random faults of all. */
  readonly plan?: FaultPlan | undefined;
}

export interface World {
  readonly story: Story;
  readonly scheduler: Scheduler;
  readonly trace: Trace;
  readonly lateEffects: LateEffects;
  /** Opens a separate client of the bucket. */
  readonly connect: () => ObjectStore;
  readonly random: SeededRandom;
}

/**
 * A process of the simulation. It may die at a random step, and then learns and does nothing more.
 */
export class SimProcess implements Scheduled {
  readonly name: string;
  readonly random: SeededRandom;
  readonly manager: RunManager;
  readonly #store: FaultyStore;
  readonly #pace: () => number;

  constructor(world: World, options: ProcessOptions) {
    const { scheduler, trace, story, lateEffects } = world;
    this.name = options.name;
    this.random = world.random.fork();
    const pace = this.random.pick(PACES);
    this.#pace = options.pace ?? (() => pace);
    const draw = seededFaults(this.random.fork(), { rates: story.rates });
    this.#store = new FaultyStore(
      new ScheduledStore(world.connect(), scheduler, this),
      (call) => {
        const fault = options.plan?.(call) ?? draw(call);
        if (fault) trace.add(this.name, `${call.operation} ${call.key} meets ${fault.effect}/${fault.reply}`);
        if (fault?.reply === 'stop') options.onDeath?.();
        return fault;
      },
      { lateEffects },
    );
    const { attempt, writer, life } = options;
    const opened = {
      store: this.#store,
      ...(attempt !== undefined && { attempt }),
      ...(writer && { writer }),
      ...(life !== undefined && { life }),
      settings: story.settings,
      clock: scheduler.clockOf(this),
      random: this.random.fork(),
    };
    this.manager = openWithLimits(opened, story.recordLimits);
  }

  get pace(): number {
    return this.#pace();
  }

  get isDead(): boolean {
    return this.#store.isStopped;
  }
}
