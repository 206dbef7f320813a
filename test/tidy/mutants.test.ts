import { expect, test } from 'vitest';
import { ENGINE_MUTANTS, SMALL } from '../sim/engine-mutants.ts';
import { mutantsOutOfDate } from './mutants.ts';
import { readRepository } from './repository.ts';

test('mutants: each text to replace occurs once in the engine', () => {
  const rule = mutantsOutOfDate([...Object.values(ENGINE_MUTANTS), ...SMALL]);
  expect(rule(readRepository())).toEqual([]);
});

test('mutants: finds a text that is gone or in two places, and a file that is gone', () => {
  const rule = mutantsOutOfDate([{ file: 'plan/a.ts', find: 'if (a(', replace: 'if (false && a(' }]);
  const faultsOf = (path: string, text: string) => rule(new Map([[path, text]]));
  expect(faultsOf('packages/core/src/plan/a.ts', 'if (a(b)) c();')).toEqual([]);
  expect(faultsOf('packages/core/src/plan/a.ts', 'if (d(b)) c();')).toHaveLength(1);
  expect(faultsOf('packages/core/src/plan/a.ts', 'if (a(b)) c();\nif (a(d)) c();')).toHaveLength(1);
  expect(faultsOf('packages/core/src/plan/b.ts', 'if (a(b)) c();')).toHaveLength(1);
});
