import { SeededRandom } from '../seeded-random.ts';
import { ConformanceError, fail } from './expect.ts';
import { type CheckContext, Scratch } from './scratch.ts';

/** One requirement of the store contract. */
export interface Check {
  /** The requirement, as a sentence. */
  readonly name: string;
  /**
   * Throws `ConformanceError` with what was expected and what was found. Works below its own
   * prefix, which it empties again, also when it fails.
   */
  run(context: CheckContext): Promise<void>;
}

export function check(name: string, body: (scratch: Scratch) => Promise<void>): Check {
  return { name, run: (context) => runInScratch(context, body) };
}

async function runInScratch(context: CheckContext, body: (scratch: Scratch) => Promise<void>): Promise<void> {
  const scratch = new Scratch(context, new SeededRandom(Number.parseInt(context.random.hex(13), 16)));
  try {
    await body(scratch);
  } catch (error) {
    // A store that broke the contract may also fail to clean up. Report the first failure.
    await Promise.allSettled([scratch.remove()]);
    if (error instanceof ConformanceError) throw error;
    fail('a call of the check', 'success', String(error), error);
  }
  await scratch.remove();
}
