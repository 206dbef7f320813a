import { openStore } from '@holdfast/stores';
import { expect, test } from 'vitest';
import { describeOnS3 } from '../servers/describe-on-s3.ts';
import { electsOneOf32 } from './election-store.ts';

describeOnS3('A14: the election on S3', (server) => {
  test('exactly one of 32 trainers that ask at once is elected, and again when its time is over', async () => {
    const { uri, env } = await server().newBucket();
    const { told, stored } = await electsOneOf32(() => openStore(uri, env));
    expect(told).toEqual([expect.stringMatching(/^trainer-\d+$/), expect.stringMatching(/^trainer-\d+$/)]);
    expect(stored).toEqual(told);
  });
});
