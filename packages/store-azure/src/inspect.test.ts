import { expect, test } from 'vitest';
import { requestRateFacts } from './inspect.ts';

test('the limit of the service is told, not that of another server', () => {
  expect(requestRateFacts({ endpoint: 'https://acc.blob.core.windows.net' })).toEqual([
    {
      id: 'request-rate',
      title: 'request rate',
      seen: '20,000 writes/s to one account, all requests counted, 40,000 in some regions: 156 GiB/s in parts of 8 MiB, more with a larger partSizeBytesMin',
    },
  ]);
  expect(requestRateFacts({ endpoint: 'http://127.0.0.1:10000/acc' })).toEqual([]);
});
