/**
 * The checks of `holdfast doctor` on emulators of the other clouds, without its races: the same
 * checks, and a report on each cloud's settings. The conformance suite races there.
 */

import { findingsOf } from '@holdfast/cli/internal/doctor';
import { expect, it } from 'vitest';
import { describeOnAzure } from '../servers/describe-on-azure.ts';
import { describeOnGcs } from '../servers/describe-on-gcs.ts';
import type { TestBucket } from '../servers/test-bucket.ts';

/** Some emulators are slow on a busy machine. */
const TEST_TIMEOUT_MS = 120_000;

async function expectSafe({ uri, env }: TestBucket, ...settings: readonly string[]): Promise<void> {
  const findings = await findingsOf(uri, { ...env });
  expect(findings.filter(({ status }) => status === 'failed')).toEqual([]);
  const ids = findings.map(({ id }) => id);
  expect(ids).toEqual(expect.arrayContaining([...settings]));
  expect(ids.at(-1)).toBe('clean-up');
  const told = JSON.stringify(findings);
  for (const secret of Object.values(env).filter((value) => value.length > 16))
    expect(told).not.toContain(secret);
}

describeOnGcs('doctor on GCS', (server) => {
  it(
    'safe, with what the bucket tells of itself',
    async () => {
      const told = ['location', 'versioning', 'soft-delete', 'retention-policy', 'lifecycle', 'encryption'];
      await expectSafe(await server().newBucket(), ...told);
    },
    TEST_TIMEOUT_MS,
  );
});

describeOnAzure('doctor on Azure', (server) => {
  it(
    'safe, with what account and container tell of themselves',
    async () => {
      const told = ['hierarchical-namespace', 'immutability', 'soft-delete', 'versioning', 'lifecycle'];
      await expectSafe(await server().newBucket(), ...told);
    },
    TEST_TIMEOUT_MS,
  );
});
