import { expect, test } from 'vitest';
import { testConfig } from './config.ts';

test('required suites are a comma list; an unknown one is an error that names those there are', () => {
  expect(testConfig({}).requiredSuites).toEqual(new Set());
  expect(testConfig({ HOLDFAST_REQUIRE: 'local,s3' }).requiredSuites).toEqual(new Set(['local', 's3']));
  expect(() => testConfig({ HOLDFAST_REQUIRE: 'local,S3' })).toThrow(
    'names S3; it is a comma list of local, s3, gcs, azure, etcd, python, frameworks, arm64, browser, prometheus',
  );
});

test('the cache is that of the bootstrap; an empty variable counts as not set', () => {
  expect(testConfig({ HOLDFAST_CACHE: '/c', HOLDFAST_TEST_S3: '' })).toMatchObject({
    cacheDirectory: '/c',
    userUris: { s3: undefined, gcs: undefined, azure: undefined },
  });
  expect(testConfig({ HOLDFAST_CACHE: 'c' }).cacheDirectory).toBe(`${process.cwd()}/c`);
});

test('each cloud has a variable for a store of the user', () => {
  const env = {
    HOLDFAST_TEST_S3: 's3://b/p',
    HOLDFAST_TEST_GCS: 'gs://b/p',
    HOLDFAST_TEST_AZURE: 'az://a/c/p',
  };
  expect(testConfig(env).userUris).toEqual({ s3: 's3://b/p', gcs: 'gs://b/p', azure: 'az://a/c/p' });
});
