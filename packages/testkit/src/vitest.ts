import { afterAll, beforeAll, describe, test } from 'vitest';
import {
  type ConformanceOptions,
  type ConformanceTarget,
  registerConformance,
} from './conformance/register-conformance.ts';

/** Registers the conformance suite as tests of the calling file. */
export function storeConformance(
  name: string,
  make: () => Promise<ConformanceTarget> | ConformanceTarget,
  options: ConformanceOptions = {},
): void {
  registerConformance({ describe, test, beforeAll, afterAll }, name, make, options);
}
