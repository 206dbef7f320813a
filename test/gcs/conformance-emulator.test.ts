import { openGcsStore } from '@holdfast/store-gcs';
import { storeConformance } from '@holdfast/testkit/vitest';
import { describe } from 'vitest';
import { describeOnGcs } from '../servers/describe-on-gcs.ts';

describeOnGcs('GCS', (server) => {
  describe.each(['compose', 'single'])('uploads=%s', (uploads) => {
    storeConformance(
      `GCS store, uploads=${uploads}`,
      async () => {
        const { uri, env } = await server().newBucket();
        const place = new URL(uri);
        place.searchParams.set('uploads', uploads);
        // Below no prefix, which would count towards the length of a key.
        const bare = `gs://${place.host}${place.search}`;
        return { open: () => openGcsStore(bare, env) };
      },
      { timeoutMs: 120_000 },
    );
  });
});
