import type { ObjectStore } from '@holdfast/core/contract';
import { SeededRandom } from '../seeded-random.ts';
import type { Check } from './check.ts';
import { conformanceChecks } from './conformance-checks.ts';

/** A place for a store, for the duration of a test file. */
export interface ConformanceTarget {
  /** Opens a new client of the store. All clients share the objects. */
  open(): Promise<ObjectStore>;
  /** Removes the place after the last test. */
  remove?(): Promise<void>;
}

export interface ConformanceOptions {
  /**
   * Reproduces the bytes and the order of calls of an earlier run of the suite. Default: random. A
   * failure reports it.
   */
  readonly seed?: number | undefined;
  readonly raceRounds?: number | undefined;
  /**
   * Known deviations of the store (such as an emulator's faults), by the check's name. Each has the
   * reason, and when the entry can be removed. Such a check must fail; if it passes, the entry is
   * an error.
   */
  readonly deviations?: Readonly<Record<string, string>> | undefined;
  /**
   * The store has its own prefix, which counts towards the length of a key: the limit is found by
   * trying. Default false.
   */
  readonly hasPrefix?: boolean | undefined;
  /** Limit of one check. Default 60 s. */
  readonly timeoutMs?: number | undefined;
}

/** The used part of vitest. */
export interface TestApi {
  describe(name: string, body: () => void): unknown;
  test(name: string, body: () => Promise<void>, timeoutMs: number): unknown;
  beforeAll(body: () => Promise<void>): unknown;
  afterAll(body: () => Promise<void>): unknown;
}

/** For a store without its own prefix. */
const KEY_BYTES_MAX = 1024;

/** Registers one test per check under `name`. `make` is called once, before the first. */
export function registerConformance(
  api: TestApi,
  name: string,
  make: () => Promise<ConformanceTarget> | ConformanceTarget,
  options: ConformanceOptions = {},
): void {
  const deviations = options.deviations ?? {};
  const unknown = Object.keys(deviations).filter(
    (known) => !conformanceChecks.some((check) => check.name === known),
  );
  if (unknown.length > 0)
    throw new Error(`deviations of ${name} name checks that do not exist: ${unknown.join('; ')}`);
  const seed = options.seed ?? Math.floor(Math.random() * 2 ** 32);

  api.describe(`${name} keeps the contract of ObjectStore`, () => {
    let target: ConformanceTarget | undefined;
    let store: ObjectStore | undefined;
    api.beforeAll(async () => {
      target = await make();
      store = await target.open();
    });
    api.afterAll(async () => {
      await store?.close();
      await target?.remove?.();
    });
    for (const [index, check] of conformanceChecks.entries()) {
      const body = async () => {
        if (target === undefined || store === undefined) throw new Error(`${name} was not opened`);
        const random = new SeededRandom(seed + index);
        const { raceRounds, hasPrefix } = options;
        const keyBytesMax = hasPrefix ? undefined : KEY_BYTES_MAX;
        const context = { store, open: target.open, random, raceRounds, keyBytesMax };
        await runAsExpected(check, context, seed, deviations[check.name]);
      };
      api.test(check.name, body, options.timeoutMs ?? 60_000);
    }
  });
}

async function runAsExpected(
  check: Check,
  context: Parameters<Check['run']>[0],
  seed: number,
  deviation: string | undefined,
): Promise<void> {
  const [outcome] = await Promise.allSettled([check.run(context)]);
  if (deviation !== undefined && outcome.status === 'fulfilled') {
    throw new Error(`the deviation no longer exists; remove its entry (${deviation})`);
  }
  if (deviation === undefined && outcome.status === 'rejected') {
    const reason: unknown = outcome.reason;
    if (reason instanceof Error) reason.message += ` (seed ${seed})`;
    throw reason;
  }
}
