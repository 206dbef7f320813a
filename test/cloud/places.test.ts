/** A first save in a bucket that has another run above or below the new one. */

import { openCheckpointManager } from '@holdfast/stores';
import { expect, test } from 'vitest';
import { CLOUDS } from '../servers/clouds.ts';

const below = (uri: string, name: string) => uri.replace(/\/?(\?|$)/, `/${name}$1`);

for (const cloud of CLOUDS) {
  cloud.describeOn(`the first save at a place on ${cloud.title}`, (server) => {
    test('in a run, or among runs, is refused', async () => {
      const { uri, env } = await server().newBucket();
      const save = async (place: string) => {
        await using run = await openCheckpointManager(place, { env });
        return await run.save({ version: 1, buffers: { a: new Uint8Array(3) } });
      };
      const gpt = below(uri, 'gpt');
      await save(gpt);
      const refused = (what: string) => ({ code: 'InvalidArgument', message: expect.stringContaining(what) });
      await expect(save(below(gpt, 'a/b'))).rejects.toMatchObject(refused(' lies in the run '));
      await expect(save(uri)).rejects.toMatchObject(refused(' holds runs already: gpt'));
      await save(below(uri, 'gpt-2'));
      // MinIO refuses the empty segment itself.
      for (const hidden of ['.holdfast-a/b', ...(cloud.title === 'S3' ? [] : ['a//b'])])
        await expect(save(below(uri, hidden))).rejects.toMatchObject(
          refused('no search would find a run at'),
        );
    });
  });
}
