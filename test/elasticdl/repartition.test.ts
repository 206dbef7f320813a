/** Reshards any model, in files and in memory, as ElasticDL's hashes require. */

import { decodeShard, repartition, restoreShard, shardsInMemory } from '@holdfast/elasticdl';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { memoryTarget } from './memory-target.ts';
import { dividedPlainly, filesOf, plainShard, randomModel } from './random-models.ts';

test('A5: any model from any N to any M: the union is the same, no row is there twice, order is kept; each server alone gets the same', async () => {
  await fc.assert(
    fc.asyncProperty(
      randomModel,
      fc.integer({ min: 1, max: 6 }),
      fc.constantFrom('S4' as const, 'S7' as const),
      async (model, count, form) => {
        const expected = dividedPlainly(model.shards, count);
        // A model of S7 stays S7. S4 has no numbers for some of its types, and S5 reads one number
        // of S4 as another type.
        const written = model.form === 'S7' ? 'S7' : form;
        const numberingOf = (of: typeof form) => (of === 'S4' ? ('elasticdl' as const) : undefined);
        const options = { count, bufferBytes: 2 ** 20, numbering: numberingOf(model.form) };
        const target = memoryTarget();
        await using set = shardsInMemory(filesOf(model));
        const { version, files } = await repartition(set, target, { ...options, form: written });
        expect(target.state).toBe('published');
        expect(version).toBe(model.shards[0]!.version);
        for (const [index, { name, sizeBytes }] of files.entries()) {
          expect(name).toBe(`variables-${index}-of-${count}.ckpt`);
          expect(target.files[name]).toHaveLength(sizeBytes);
          const decoded = await decodeShard(target.files[name]!, { numbering: numberingOf(written) });
          expect(plainShard(decoded)).toEqual(expected[index]);
        }
        const index = model.shards.length % count;
        const restored = await restoreShard(set, { ...options, index });
        expect(plainShard(restored)).toEqual(expected[index]);
        expect([...restored.tables.keys()]).toEqual(restored.infos.map(({ name }) => name));
      },
    ),
    { numRuns: 100 },
  );
});
