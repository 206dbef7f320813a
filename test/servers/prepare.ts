/**
 * Builds the servers, the Pythons and the machine for arm64 that tests need, so that no test has to
 * wait for them. It reports what is not available. That is a failure only if `HOLDFAST_REQUIRE`
 * names a suite that needs it.
 *
 *   node --conditions=holdfast-source test/servers/prepare.ts
 */

import { ARM64_TITLE, arm64Machine } from '../artifacts/arm64-machine.ts';
import { FRAMEWORKS_TITLE, frameworksProgram } from '../python/frameworks-program.ts';
import { NODE_WHEEL_TITLE, nodeWheels } from '../python/node-wheel.ts';
import { PYTHON_TITLE, pythonProgram } from '../python/python-program.ts';
import { CHROMIUM_TITLE, chromiumProgram } from '../ui/chromium-program.ts';
import { AZURITE_TITLE, azuriteModule } from './azure-server.ts';
import { ServerUnavailable } from './cached-build.ts';
import { type Suite, testConfig } from './config.ts';
import { ETCD_TITLE, etcdProgram } from './etcd-program.ts';
import { FAKE_GCS, type GoProgram, goProgram, MINIO, TOXIPROXY, VERSITYGW } from './go-program.ts';
import { PROMETHEUS_TITLE, prometheusPrograms } from './prometheus-program.ts';

interface Need {
  readonly title: string;
  readonly suites: readonly Suite[];
  /** Path of the program. */
  find(): Promise<string>;
}

const required = testConfig(process.env).requiredSuites;

function go(program: GoProgram, ...suites: Suite[]): Need {
  return { title: program.title, suites, find: () => goProgram(program) };
}

/** They need the processors. */
const COMPILED: readonly Need[] = [
  go(MINIO, 's3'),
  go(VERSITYGW, 's3'),
  go(FAKE_GCS, 'gcs'),
  go(TOXIPROXY, 's3', 'gcs', 'azure'),
];

/** They need the network and the disk. */
const DOWNLOADED: readonly Need[] = [
  { title: AZURITE_TITLE, suites: ['azure'], find: async () => azuriteModule() },
  { title: ETCD_TITLE, suites: ['etcd'], find: () => etcdProgram() },
  { title: PYTHON_TITLE, suites: ['python'], find: pythonProgram },
  { title: NODE_WHEEL_TITLE, suites: ['python'], find: nodeWheels },
  { title: FRAMEWORKS_TITLE, suites: ['frameworks'], find: frameworksProgram },
  { title: CHROMIUM_TITLE, suites: ['browser'], find: () => chromiumProgram() },
  {
    title: PROMETHEUS_TITLE,
    suites: ['prometheus'],
    find: async () => (await prometheusPrograms()).prometheus,
  },
  { title: ARM64_TITLE, suites: ['arm64'], find: () => arm64Machine() },
];

async function prepare(needs: readonly Need[]): Promise<void> {
  for (const { title, suites, find } of needs) {
    try {
      console.log(`${title}: ${await find()}`);
    } catch (error) {
      if (!(error instanceof ServerUnavailable)) throw error;
      const isRequired = suites.some((suite) => required.has(suite));
      const what = isRequired ? 'which HOLDFAST_REQUIRE asks for' : 'so its tests will be SKIPPED';
      console.error(`${title} cannot be had, ${what}: ${error.message}`);
      if (isRequired) process.exitCode = 1;
    }
  }
}

await Promise.all([prepare(COMPILED), prepare(DOWNLOADED)]);
