import { expect, test } from 'vitest';
import { requestRateFacts } from './inspect.ts';

test('the limit of the service is told, not that of another server', () => {
  expect(requestRateFacts({ endpoint: 'https://storage.googleapis.com' })).toEqual([
    {
      id: 'request-rate',
      title: 'request rate',
      seen: '1,000 writes/s to one bucket, until it has grown, twofold in 20 min: 8 GiB/s in parts of 8 MiB, more with a larger partSizeBytesMin',
    },
  ]);
  expect(requestRateFacts({ endpoint: 'http://127.0.0.1:4443' })).toEqual([]);
});
