import type { StoreOperation } from '@holdfast/core/store';
import type { SeededRandom } from '../seeded-random.ts';
import { FAULTS, type Fault, type FaultName, type FaultPlan, type PlannedCall } from './fault.ts';

/** Applies the fault to the call of this number only. */
export function faultAt(number: number, fault: Fault): FaultPlan {
  return (call) => (call.number === number ? fault : undefined);
}

export interface ScriptStep {
  readonly fault: Fault;
  /** Default: any. */
  readonly operation?: StoreOperation | readonly StoreOperation[] | undefined;
  /** The whole key, or a pattern. Default: any. */
  readonly key?: string | RegExp | undefined;
  /** Number of matching calls that pass first. Default 0. */
  readonly skip?: number | undefined;
  /** Number of calls that fail after those. Default 1. */
  readonly times?: number | undefined;
}

/**
 * Faults by a script: the first step that matches a call and is not used up applies to it. A plan
 * counts its calls, so use it only once.
 */
export function scriptedFaults(...steps: readonly ScriptStep[]): FaultPlan {
  const states = steps.map((step) => ({ step, skip: step.skip ?? 0, times: step.times ?? 1 }));
  return (call) => {
    for (const state of states) {
      if (state.times === 0 || !matches(state.step, call)) continue;
      if (state.skip > 0) {
        state.skip--;
        continue;
      }
      state.times--;
      return state.step.fault;
    }
    return undefined;
  };
}

function matches(step: ScriptStep, call: PlannedCall): boolean {
  const { operation, key } = step;
  if (operation !== undefined && ![operation].flat().includes(call.operation)) return false;
  if (key === undefined) return true;
  return typeof key === 'string' ? key === call.key : key.test(call.key);
}

export interface SeededFaultsOptions {
  /** Probability of each fault, per call; together at most 1. */
  readonly rates: Partial<Readonly<Record<FaultName, number>>>;
  /**
   * Late effects take place before one of this many following calls, uniformly distributed. Absent:
   * when the test releases them.
   */
  readonly lateAfterCallsMax?: number | undefined;
}

/** Random faults, the same for the same seed and the same calls. */
export function seededFaults(random: SeededRandom, options: SeededFaultsOptions): FaultPlan {
  const rates = Object.entries(options.rates) as [FaultName, number][];
  const total = rates.reduce((sum, [, rate]) => sum + rate, 0);
  if (rates.some(([, rate]) => !(rate >= 0)) || total > 1) {
    throw new Error(
      `fault rates must not be negative and add up to at most 1; they are ${JSON.stringify(options.rates)}`,
    );
  }
  return () => {
    // Draw both for every call, so that one call's fault does not shift the numbers of the next.
    const draw = random.fraction();
    const lateness = random.fraction();
    const name = nameAt(rates, draw);
    if (name === undefined) return undefined;
    const { lateAfterCallsMax } = options;
    return lateAfterCallsMax === undefined
      ? FAULTS[name]
      : { ...FAULTS[name], lateAfterCalls: 1 + Math.floor(lateness * lateAfterCallsMax) };
  };
}

function nameAt(rates: readonly [FaultName, number][], draw: number): FaultName | undefined {
  let end = 0;
  for (const [name, rate] of rates) {
    end += rate;
    if (draw < end) return name;
  }
  return undefined;
}
