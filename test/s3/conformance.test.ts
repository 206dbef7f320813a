import { openS3Store } from '@holdfast/store-s3';
import { storeConformance } from '@holdfast/testkit/vitest';
import { describeOnS3 } from '../servers/describe-on-s3.ts';

describeOnS3('S3', (server) => {
  storeConformance(
    'S3 store',
    async () => {
      const { uri, env } = await server().newBucket();
      return { open: () => openS3Store(uri, env) };
    },
    { timeoutMs: 120_000, hasPrefix: true },
  );
});
