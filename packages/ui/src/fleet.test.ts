import { crc32c, createCheckpointManager, systemClock } from '@holdfast/core';
import { CheckpointError } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { expect, onTestFinished, test } from 'vitest';
import { Fleet } from './fleet.ts';
import { Runs } from './runs.ts';

const PLACE = 'memory://place';

/** A place with the runs `team/a` and `team/b`, and prefixes that the store does not answer. */
async function place() {
  const own = new MemoryBucket({ crc32c });
  await using manager = createCheckpointManager({ store: new MemoryStore(own) });
  await manager.save({ version: 3, buffers: { a: new Uint8Array(10) } });
  const bucket = new MemoryBucket({ crc32c });
  for (const key of own.keys()) {
    const { bytes } = await new MemoryStore(own).get(key, { maxBytes: 1e6 });
    for (const run of ['a', 'b']) bucket.insert(`team/${run}/${key}`, bytes);
  }
  const store = new MemoryStore(bucket);
  const refused = new Set<string>();
  const check = (prefix: string) => {
    if ([...refused].some((each) => prefix.startsWith(each)))
      throw new CheckpointError('Denied', `not ${prefix}`);
  };
  const [list, listDirectories] = [store.list.bind(store), store.listDirectories.bind(store)];
  store.list = (prefix, options) => {
    check(prefix);
    return list(prefix, options);
  };
  store.listDirectories = (prefix, options) => {
    check(prefix);
    return listDirectories(prefix, options);
  };
  return { store, refused, bucket };
}

/** The fleet of these places, and what a page sees in the next look, which has ended. */
function fleetOf(places: ConstructorParameters<typeof Fleet>[0]['places']) {
  let passedMs = 0;
  const clock = { ...systemClock, monotonicMs: () => passedMs };
  const open = async () => createCheckpointManager({ store: new MemoryStore(new MemoryBucket({ crc32c })) });
  const fleet = new Fleet({ places, env: undefined, clock, open });
  onTestFinished(() => fleet.close());
  const look = async () => {
    passedMs += 31_000;
    for (;;) {
      const view = await fleet.view();
      if (!view.isLooking) return view;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { fleet, look, open, clock };
}

test.each(['', 'team/'])(
  'runs stay known, with their facts, while "%s" of their place cannot be listed',
  async (prefix) => {
    const { store, refused } = await place();
    const { fleet, look, open, clock } = fleetOf([{ uri: PLACE, store }]);
    const before = await look();
    expect(before.runs.map(({ name, state }) => [name, state])).toEqual([
      ['team/a', 'ok'],
      ['team/b', 'ok'],
    ]);

    refused.add(prefix);
    const during = await look();
    expect(during.version).toBeGreaterThan(before.version);
    for (const name of ['team/a', 'team/b']) {
      const [known] = before.runs.filter((run) => run.name === name);
      expect(during.runs.find((run) => run.name === name)).toMatchObject({
        state: 'denied',
        problem: { code: 'Denied' },
        latest: { version: '3' },
        asOfMs: known?.asOfMs,
      });
      expect(fleet.isFound(`${PLACE}/${name}`)).toBe(true);
    }
    // So an open page of such a run is still served.
    const runs = new Runs({ open, clock, isFound: (uri) => fleet.isFound(uri), uris: [PLACE] });
    onTestFinished(() => runs.close());
    await expect(runs.reader(`${PLACE}/team/a`)).resolves.toBeDefined();

    refused.clear();
    const after = await look();
    expect(after.runs.map(({ name, state }) => [name, state])).toEqual([
      ['team/a', 'ok'],
      ['team/b', 'ok'],
    ]);
  },
);

test('a run that was removed is found no more', async () => {
  const { store, bucket } = await place();
  const { fleet, look } = fleetOf([{ uri: PLACE, store }]);
  await look();
  for (const key of bucket.keys()) if (key.startsWith('team/a/')) bucket.remove(key);
  expect((await look()).runs.map(({ name }) => name)).toEqual(['team/b']);
  expect(fleet.isFound(`${PLACE}/team/a`)).toBe(false);
});

test('a place that fails as a whole is told, and does not hide the runs of another', async () => {
  const { store } = await place();
  const { look } = fleetOf(['ftp://nowhere', { uri: PLACE, store }]);
  const view = await look();
  expect(view.problem).toMatchObject({ code: 'InvalidConfig' });
  expect(view.doneAtMs).toBeNull();
  expect(view.runs.map(({ name }) => name)).toEqual(['team/a', 'team/b']);
});

test('a run below two places is given once', async () => {
  const { store } = await place();
  const { look } = fleetOf([
    { uri: PLACE, store },
    { uri: PLACE, store },
  ]);
  expect((await look()).runs.map(({ name }) => name)).toEqual(['team/a', 'team/b']);
});
