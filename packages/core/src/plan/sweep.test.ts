import { describe, expect, test } from 'vitest';
import type { CheckpointId, State } from '../format/index.ts';
import { EMPTY_STATE } from './state.ts';
import { isLongOver, isUploadOver, mayBeLongOver, planSweep, type RunListing } from './sweep.ts';

const at = (lineage: number, epoch: number, version: bigint): CheckpointId => ({ lineage, epoch, version });
/** Lineage 2, epoch 5, top 20. */
const STATE: State = {
  ...EMPTY_STATE,
  lineage: 2,
  epoch: 5,
  top: 20n,
  worldSize: 2,
  incarnations: { 1: 3 },
  abandoned: [at(2, 5, 33n)],
};
const HEX = '0123456789abcdef';

function listed(keys: Partial<Record<'objects' | 'claims' | 'leases', readonly string[]>>): RunListing {
  const all = (some: readonly string[] = []) => some.map((key) => ({ key, sizeBytes: 10, createdAtMs: 0 }));
  return { objects: all(keys.objects), claims: all(keys.claims), leases: all(keys.leases) };
}

/** The plan's result for these keys below `version_{v}/`. */
function fates(objects: readonly string[], held: readonly string[] = [], state: State = STATE) {
  const { claims: _, ...plan } = planSweep(listed({ objects }), state, [held]);
  return Object.fromEntries(
    Object.entries(plan).flatMap(([fate, some]) => some.map(({ key }) => [key, fate])),
  );
}

const payload = (prefix: string, by = '0.0') => `${prefix}/${by}-ab/model/w.bin`;
const receipt = (prefix: string, by = '0.0') => `${prefix}/receipts/${by}.json`;
const manifest = (prefix: string) => `${prefix}/manifest-${HEX}.json`;
const allOf = (prefix: string) => [payload(prefix), receipt(prefix), manifest(prefix)];

describe('an object that no checkpoint holds on to', () => {
  test.each([
    ['of an older lineage', 'version_99/1.5'],
    ['of an older epoch', 'version_99/2.4'],
    ['not above the highest committed', 'version_20/2.5'],
    ['far below the highest committed', 'version_3/2.5'],
    ['of an abandoned version', 'version_33/2.5'],
  ])('%s goes, in the order payloads, receipts, manifests', (_, prefix) => {
    expect(fates(allOf(prefix))).toEqual({
      [payload(prefix)]: 'payloads',
      [receipt(prefix)]: 'receipts',
      [manifest(prefix)]: 'manifests',
    });
  });

  test('that can still be committed is unfinished, however old it is', () => {
    expect(Object.values(fates(allOf('version_21/2.5')))).toEqual(Array(3).fill('unfinished'));
  });

  test('the highest committed version is compared as a number: 2 is below 20, 100 is above', () => {
    expect(fates([payload('version_2/2.5'), payload('version_100/2.5')])).toEqual({
      [payload('version_2/2.5')]: 'payloads',
      [payload('version_100/2.5')]: 'unfinished',
    });
  });

  test('after a newer life superseded its own: the receipt goes, the payload stays for the successor', () => {
    const prefix = 'version_21/2.5';
    expect(
      fates([receipt(prefix, '1.2'), receipt(prefix, '1.3'), receipt(prefix, '0.0'), payload(prefix, '1.2')]),
    ).toEqual({
      [receipt(prefix, '1.2')]: 'receipts',
      [receipt(prefix, '1.3')]: 'unfinished',
      [receipt(prefix, '0.0')]: 'unfinished',
      [payload(prefix, '1.2')]: 'unfinished',
    });
  });
});

describe('an object that a checkpoint holds on to', () => {
  test('stays: its own manifest, receipts and payloads', () => {
    const prefix = 'version_20/2.5';
    expect(fates(allOf(prefix), allOf(prefix))).toEqual({});
  });

  test('stays below the prefix of a version that is long gone: a base outlives its own checkpoint', () => {
    expect(fates(allOf('version_1/1.1'), [payload('version_1/1.1')])).toEqual({
      [receipt('version_1/1.1')]: 'receipts',
      [manifest('version_1/1.1')]: 'manifests',
    });
  });

  test('does not keep its neighbours: another life, another nonce, version_1 beside version_10', () => {
    const held = ['version_10/2.5/0.0-ab/w'];
    expect(
      fates([...held, 'version_1/2.5/0.0-ab/w', 'version_10/2.5/0.0-abc/w', 'version_10/2.5/0.1-ab/w'], held),
    ).toEqual({
      'version_1/2.5/0.0-ab/w': 'payloads',
      'version_10/2.5/0.0-abc/w': 'payloads',
      'version_10/2.5/0.1-ab/w': 'payloads',
    });
  });

  test('another manifest of a committed id goes, the one of the catalog stays', () => {
    const other = `version_20/2.5/manifest-${'f'.repeat(16)}.json`;
    expect(fates([manifest('version_20/2.5'), other], [manifest('version_20/2.5')])).toEqual({
      [other]: 'manifests',
    });
  });
});

test('keys that do not belong to a run are ignored, wherever they lie', () => {
  const foreign = [
    'version_notes.txt',
    'version_3/readme',
    'version_3/1.1/notes.txt',
    'version_03/1.1/0.0-ab/w',
    'version_3/1.1/receipts/0.0.json.bak',
    'version_3/1.1/manifest-xyz.json',
  ];
  expect(fates(foreign)).toEqual(Object.fromEntries(foreign.map((key) => [key, 'foreign'])));
  const plan = planSweep(listed({ claims: ['writers/1.1/x'], leases: ['leases/x'] }), STATE, []);
  expect(plan.foreign.map(({ key }) => key)).toEqual(['writers/1.1/x', 'leases/x']);
});

test('claims of passed epochs go, those of the current one stay, in every lineage', () => {
  const claims = [
    'writers/1.4/0.0.json',
    'writers/2.4/1.7.json',
    'writers/1.5/0.0.json',
    'writers/2.5/0.0.json',
  ];
  const plan = planSweep(listed({ claims }), STATE, []);
  expect(plan.claims.map(({ key }) => key)).toEqual(claims.slice(0, 2));
});

describe('a catalog that is older than what lies beside it', () => {
  const ahead: [string, Parameters<typeof listed>[0], string][] = [
    ['a payload of a later lineage', { objects: [payload('version_1/3.1')] }, payload('version_1/3.1')],
    ['a receipt of a later epoch', { objects: [receipt('version_1/1.6')] }, receipt('version_1/1.6')],
    ['a key of no known form in a later epoch', { objects: ['version_1/2.6/x'] }, 'version_1/2.6/x'],
    ['a claim', { claims: ['writers/2.6/0.0.json'] }, 'writers/2.6/0.0.json'],
    ['a lease', { leases: ['leases/7.3.1/r-ab.json'] }, 'leases/7.3.1/r-ab.json'],
  ];
  test.each(ahead)('%s: StoreRegressed names the key', (_, keys, key) => {
    const garbage = { objects: [payload('version_1/1.1'), ...(keys.objects ?? [])] };
    const plan = () => planSweep(listed({ ...keys, ...garbage }), STATE, []);
    expect(plan).toThrow(expect.objectContaining({ code: 'StoreRegressed', context: { key } }));
  });
});

describe('an upload', () => {
  const upload = (id: CheckpointId, prefix: string) => isUploadOver({ id, key: payload(prefix) }, STATE);
  test('an upload in a past epoch, or with a version not above the top, is over; one that can be committed is not', () => {
    expect(upload(at(2, 4, 30n), 'version_30/2.4')).toBe(true);
    expect(upload(at(2, 5, 20n), 'version_20/2.5')).toBe(true);
    expect(upload(at(2, 5, 21n), 'version_21/2.5')).toBe(false);
  });

  test('is over only if both its record and its key say so; a foreign key never is', () => {
    expect(upload(at(2, 4, 30n), 'version_30/2.5')).toBe(false);
    expect(upload(at(2, 5, 30n), 'version_30/2.4')).toBe(false);
    expect(isUploadOver({ id: at(1, 1, 1n), key: 'version_1/x' }, STATE)).toBe(false);
    expect(isUploadOver({ key: payload('version_30/2.4') }, STATE)).toBe(true);
  });

  test('an upload in an epoch that the catalog has not reached: StoreRegressed', () => {
    expect(() => upload(at(2, 6, 1n), 'version_1/2.5')).toThrow(/version_1\/2\.5.*epoch 6/);
    expect(() => isUploadOver({ key: payload('version_1/2.6') }, STATE)).toThrow(/StoreRegressed|epoch 6/);
  });
});

test('a lease is long over after ten times its length, and never within a day', () => {
  const [HOUR_MS, DAY_MS] = [3_600_000, 86_400_000];
  expect([mayBeLongOver(DAY_MS - 1), mayBeLongOver(DAY_MS)]).toEqual([false, true]);
  expect(isLongOver({ ttlMs: 1000 }, DAY_MS - 1)).toBe(false);
  expect(isLongOver({ ttlMs: 1000 }, DAY_MS)).toBe(true);
  expect(isLongOver({ ttlMs: 4 * HOUR_MS }, 40 * HOUR_MS - 1)).toBe(false);
  expect(isLongOver({ ttlMs: 4 * HOUR_MS }, 40 * HOUR_MS)).toBe(true);
});
