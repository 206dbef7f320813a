import { expect, test } from 'vitest';
import { testConfig } from './config.ts';

test('required suites are a comma list; an unknown one is an error that names those there are', () => {
  expect(testConfig({}).requiredSuites).toEqual(new Set());
  expect(testConfig({ HOLDFAST_REQUIRE: 'local,s3' }).requiredSuites).toEqual(new Set(['local', 's3']));
  expect(() => testConfig({ HOLDFAST_REQUIRE: 'local,S3' })).toThrow(
    'names S3; it is a comma list of local, s3',
  );
});

test('the cache is that of the bootstrap; an empty variable counts as not set', () => {
  expect(testConfig({ HOLDFAST_CACHE: '/c', HOLDFAST_TEST_S3: '' })).toMatchObject({
    cacheDirectory: '/c',
    s3Uri: undefined,
  });
  expect(testConfig({ HOLDFAST_CACHE: 'c' }).cacheDirectory).toBe(`${process.cwd()}/c`);
  expect(testConfig({ HOLDFAST_TEST_S3: 's3://b/p' }).s3Uri).toBe('s3://b/p');
});
