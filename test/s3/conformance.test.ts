import { openS3Store } from '@holdfast/store-s3';
import { storeConformance } from '@holdfast/testkit/vitest';
import { describeOnS3 } from '../servers/describe-on-s3.ts';

describeOnS3('S3', (server) => {
  storeConformance(
    'S3 store',
    async () => {
      const bucket = await server().newBucket();
      const { env } = bucket;
      // Below no prefix, which would count towards the length of a key.
      const uri = bucket.uri.replace(/^(s3:\/\/[^/?]+)[^?]*/, '$1');
      return { open: () => openS3Store(uri, env) };
    },
    { timeoutMs: 120_000 },
  );
});
