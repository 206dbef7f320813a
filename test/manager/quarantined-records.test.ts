/** A version that shares files with others is quarantined because its records are damaged. */

import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

const KEEP_ALL = { keepLast: 3 };
const AT_ONCE = { keepLast: 1, graceMs: 0 };

describe('a quarantined version that shares files and whose manifest is damaged', () => {
  const shared = bytes(200_000);

  async function damagedRun() {
    const bucket = newBucket();
    await using manager = open(bucket, { attempt: 'job' });
    // Those from 2 on refer to the file of 1: that of 0 is not hashed.
    for (const version of [0, 1, 2, 3])
      await manager.save({ version, buffers: { shared, own: bytes(100, version) } });
    const find = (pattern: RegExp) => bucket.keys().find((key) => pattern.test(key)) as string;
    const damage = (pattern: RegExp) => bucket.damage(find(pattern), (data) => data.with(9, 0));
    damage(/^version_2\/.*manifest-/);
    return { bucket, find, damage };
  }

  test('stops no collection once it is quarantined, and keeps what its receipts name', async () => {
    const { bucket, find } = await damagedRun();
    await using manager = open(bucket, { attempt: 'job' });
    expect(await failure(manager.admin.collect({ policy: KEEP_ALL, force: true }))).toMatch(
      /^Corrupt: nothing/,
    );
    await manager.admin.verify({ version: 2, quarantine: true });
    const sharedKey = find(/^version_1\/.*\/shared$/);
    expect((await manager.admin.collect({ policy: AT_ONCE, force: true })).swept.objectCount).toBeGreaterThan(
      0,
    );
    expect(bucket.keys()).not.toContainEqual(expect.stringMatching(/^version_1\/.*\/own$/));
    expect(bucket.keys()).toEqual(expect.arrayContaining([sharedKey, find(/^version_2\/.*\/own$/)]));
    expect((await manager.admin.fsck()).problems.map(({ kind }) => kind)).toEqual(['damaged']);
  });

  test('stops it if a receipt is damaged too, and the advice is not to quarantine it again', async () => {
    const { bucket, damage } = await damagedRun();
    damage(/^version_2\/.*receipts/);
    await using manager = open(bucket, { attempt: 'job' });
    await manager.admin.verify({ version: 2, quarantine: true });
    const before = bucket.keys().filter((key) => key.startsWith('version_'));
    const error = await manager.admin.collect({ policy: AT_ONCE, force: true }).catch((failure) => failure);
    expect([error.code, error.context.advice[0]]).toEqual([
      'Corrupt',
      expect.stringMatching(/^version 2.* is quarantined, but its receipts cannot be read either/),
    ]);
    expect(bucket.keys().filter((key) => key.startsWith('version_'))).toEqual(before);
  });
});
