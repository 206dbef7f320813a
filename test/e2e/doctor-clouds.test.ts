/**
 * `holdfast doctor` on emulators of the other clouds: the same checks, and a report on each cloud's
 * settings.
 */

import { expect, it } from 'vitest';
import { describeOnAzure } from '../servers/describe-on-azure.ts';
import { describeOnGcs } from '../servers/describe-on-gcs.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { holdfast } from './holdfast-process.ts';

/** A race of a hundred rounds is slow on a busy machine. */
const TEST_TIMEOUT_MS = 120_000;

async function expectSafe({ uri, env }: TestBucket, ...settings: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await holdfast(['doctor', uri, '--quick', '--json'], { env: { ...env } });
  expect(code, stdout + stderr).toBe(0);
  const { verdict, checks } = JSON.parse(stdout);
  expect(verdict).toBe('safe');
  const ids: string[] = checks.map(({ id }: { id: string }) => id);
  expect(ids).toEqual(expect.arrayContaining([...settings]));
  expect(ids.at(-1)).toBe('clean-up');
  expect(checks.filter(({ status }: { status: string }) => status === 'failed')).toEqual([]);
  for (const secret of Object.values(env).filter((value) => value.length > 16)) {
    expect(stdout + stderr).not.toContain(secret);
  }
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
