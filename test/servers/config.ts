/** Configuration of the test servers, from environment variables. */

import os from 'node:os';
import { resolve } from 'node:path';
// @boundaries-ignore the bootstrap decides where the cache is, before there are any packages
import { cacheDir } from '../../scripts/toolchain.mjs';

/** Suites that `HOLDFAST_REQUIRE` can name. */
const SUITES = [
  'local',
  's3',
  'gcs',
  'azure',
  'etcd',
  'python',
  'frameworks',
  'arm64',
  'browser',
  'prometheus',
  'native',
] as const;

export type Suite = (typeof SUITES)[number];
/** Suites whose store is in a cloud or on an emulator. */
export type CloudSuite = Exclude<
  Suite,
  'local' | 'etcd' | 'python' | 'frameworks' | 'arm64' | 'browser' | 'prometheus' | 'native'
>;

export interface TestConfig {
  /** Directory for built programs, by version. Absolute. */
  readonly cacheDirectory: string;
  /**
   * `HOLDFAST_TEST_S3`, `HOLDFAST_TEST_GCS`, `HOLDFAST_TEST_AZURE`: tests run there instead of on a
   * server that they start.
   */
  readonly userUris: Readonly<Record<CloudSuite, string | undefined>>;
  /** `HOLDFAST_REQUIRE`: if one of these suites cannot run, it fails instead of being skipped. */
  readonly requiredSuites: ReadonlySet<Suite>;
}

function isSuite(name: string): name is Suite {
  return (SUITES as readonly string[]).includes(name);
}

function parseSuites(text: string): Set<Suite> {
  const names = text.split(',').filter((name) => name !== '');
  const unknown = names.filter((name) => !isSuite(name));
  if (unknown.length === 0) return new Set(names.filter(isSuite));
  throw new Error(`HOLDFAST_REQUIRE names ${unknown.join(', ')}; it is a comma list of ${SUITES.join(', ')}`);
}

/** An empty variable counts as not set. */
export function testConfig(env: Readonly<Record<string, string | undefined>>): TestConfig {
  return {
    cacheDirectory: resolve(cacheDir({ env, platform: process.platform, home: os.homedir() })),
    userUris: {
      s3: env['HOLDFAST_TEST_S3'] || undefined,
      gcs: env['HOLDFAST_TEST_GCS'] || undefined,
      azure: env['HOLDFAST_TEST_AZURE'] || undefined,
    },
    requiredSuites: parseSuites(env['HOLDFAST_REQUIRE'] ?? ''),
  };
}
