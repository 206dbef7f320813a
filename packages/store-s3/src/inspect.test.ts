import { expect, test } from 'vitest';
import { requestRateFacts } from './inspect.ts';

test('the limit of the service is told, not that of another server', () => {
  expect(requestRateFacts({ endpoint: undefined })).toEqual([
    {
      id: 'request-rate',
      title: 'request rate',
      seen: '3,500 writes/s below one prefix, until S3 has split it: 27 GiB/s in parts of 8 MiB, more with a larger partSizeBytesMin',
    },
  ]);
  expect(requestRateFacts({ endpoint: 'http://127.0.0.1:9000' })).toEqual([]);
});
