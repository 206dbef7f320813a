/** Plays mutants until the simulation finds each. */

import { ENGINE_MUTANTS, SMALL_ENGINE } from './engine-mutants.ts';
import { loadMutated } from './mutation.ts';
import { type Sabotage, simulate } from './simulation.ts';
import { STORE_MUTANTS } from './store-mutants.ts';
import { FIRST_DRAWN_SEED } from './story.ts';

export interface Prey {
  readonly name: string;
  /** Number of schedules played. The last one found the mutant, unless `violation` is absent. */
  readonly played: number;
  readonly seed?: number;
  readonly violation?: string;
}

/** `seed`: where each hunt begins. Absent: at the seed that found the mutant before. */
export async function* hunt(seed: number | undefined, scheduleCountMax: number): AsyncGenerator<Prey> {
  for (const [name, sabotage] of Object.entries(STORE_MUTANTS)) {
    yield await huntOne(name, simulate, { seed: seed ?? 1, scheduleCountMax, sabotage });
  }
  for (const [name, mutant] of Object.entries(ENGINE_MUTANTS)) {
    const mutated = await loadMutated(name);
    yield await huntOne(name, mutated.simulate, { seed: seed ?? mutant.seed ?? 1, scheduleCountMax });
  }
}

const SMALL_SCHEDULES = 60;

/** Plays the small dimensions without a mistake: no violation may be found. */
export async function playSmall(): Promise<Prey> {
  const { simulate: play } = await loadMutated(SMALL_ENGINE);
  return huntOne(SMALL_ENGINE, play, { seed: FIRST_DRAWN_SEED, scheduleCountMax: SMALL_SCHEDULES });
}

async function huntOne(
  name: string,
  play: typeof simulate,
  {
    seed,
    scheduleCountMax,
    sabotage,
  }: { seed: number; scheduleCountMax: number; sabotage?: Sabotage | undefined },
): Promise<Prey> {
  for (let played = 0; played < scheduleCountMax; played++) {
    const { violation } = await play(seed + played, sabotage);
    if (violation !== undefined) return { name, played: played + 1, seed: seed + played, violation };
  }
  return { name, played: scheduleCountMax };
}
