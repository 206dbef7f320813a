import { expect, test } from 'vitest';
import { partsOfBucket, partsOfUri } from './test-bucket.ts';

test.each([
  ['s3://b/some/%20place/?endpoint=http://h:1&region=r', 's3://b', 'b', 'some/ place'],
  ['gs://b/p?endpoint=http://h:1', 'gs://b', 'b', 'p'],
  ['az://account/container/a/b?endpoint=http://h:1/account', 'az://account/container', 'container', 'a/b'],
  ['az://account/container?endpoint=http://h:1', 'az://account/container', 'container', ''],
  ['s3://b?endpoint=http://h:1', 's3://b', 'b', ''],
])('%s is a bucket, a prefix and settings', (uri, root, bucket, prefix) => {
  const parts = partsOfUri(uri);
  expect(parts).toMatchObject({ root, bucket, prefix });
  expect(parts?.query.get('endpoint')).toMatch(/^http:\/\/h:1/);
});

test.each(['s3:///prefix', 'az://account', 'az://account/', 'https://b/p', 'gs://b/p#x', ''])(
  '%j is no place in a bucket',
  (uri) => {
    expect(partsOfUri(uri)).toBeUndefined();
    expect(() => partsOfBucket({ uri, env: {}, bucket: '', endpoint: undefined })).toThrow('is no URI');
  },
);
