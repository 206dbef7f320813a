import { SeededRandom } from '../seeded-random.ts';
import { ConformanceError, fail } from './expect.ts';
import { type CheckContext, Scratch } from './scratch.ts';

/** One promise of a store. */
export interface Check {
  /** The promise, in words. */
  readonly name: string;
  /**
   * Throws `ConformanceError` with what was expected and what was found. Works below a prefix of
   * its own, which it empties again, also when it fails.
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
    // A store that broke a promise may well fail to tidy up; what it did first is the news.
    await Promise.allSettled([scratch.remove()]);
    if (error instanceof ConformanceError) throw error;
    fail('a call of the check', 'success', String(error), error);
  }
  await scratch.remove();
}
