import { ConformanceError, conformanceChecks, SeededRandom } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { readingMutants } from './read-mutants.ts';
import { storeMutants } from './store-mutants.ts';
import { uploadMutants } from './upload-mutants.ts';

const MUTANTS = [...storeMutants, ...readingMutants, ...uploadMutants];

function checkNamed(name: string) {
  const check = conformanceChecks.find((candidate) => candidate.name === name);
  if (check === undefined) throw new Error(`there is no check named "${name}"`);
  return check;
}

describe('the conformance suite finds each broken store', () => {
  test.each(MUTANTS.map((mutant) => [mutant.name, mutant] as const))('a store that %s', async (_, mutant) => {
    const open = mutant.make();
    const run = checkNamed(mutant.breaks).run({
      store: await open(),
      open,
      random: new SeededRandom(1),
      raceRounds: 3,
    });
    await expect(run).rejects.toThrow(ConformanceError);
  });

  test('every check finds one', () => {
    const found = new Set(MUTANTS.map((mutant) => mutant.breaks));
    const idle = conformanceChecks.map((check) => check.name).filter((name) => !found.has(name));
    expect(idle).toEqual([]);
  });

  test('checks have different names', () => {
    expect(new Set(conformanceChecks.map((check) => check.name)).size).toBe(conformanceChecks.length);
  });
});
