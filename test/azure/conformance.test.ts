import { openAzureStore } from '@holdfast/store-azure';
import { storeConformance } from '@holdfast/testkit/vitest';
import { describeOnAzure } from '../servers/describe-on-azure.ts';

describeOnAzure('Azure', (server) => {
  storeConformance(
    'Azure store',
    async () => {
      const { uri, env } = await server().newBucket();
      // Below no prefix, which would count towards the length of a key.
      const whole = uri.replace(/^(az:\/\/[^/?]+\/[^/?]+)[^?]*/, '$1');
      return { open: () => openAzureStore(whole, env) };
    },
    { timeoutMs: 120_000 },
  );
});
