/**
 * A process without a given attempt id draws one. Only the process remembers that it has taken
 * over.
 */

import { type RunManager, systemClock } from '@holdfast/core';
import { catalogKey } from '@holdfast/core/internal/format/index';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FAULTS, type FaultName, ManualClock } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';
import { processOn } from './sweep-run.ts';

/** Number of transactions that the catalog remembers. */
const RING = 256;
/**
 * Entries 1 and 2 are the first job's takeover and commit. The takeover of the process under test
 * is entry 3.
 */
const SENT_ON = 2;

const save = (manager: RunManager, version: number) =>
  manager.save({ version, buffers: { a: bytes(10, version) }, onStale: 'off', dedupe: 'off' });

async function runOfFirstJob(): Promise<MemoryBucket> {
  const bucket = newBucket();
  await using first = open(bucket, { attempt: 'job-0' });
  await save(first, 1);
  return bucket;
}

/** Makes decisions of a command. They change neither the epoch nor the attempt. */
async function decideUpTo(seq: number, bucket: MemoryBucket): Promise<void> {
  await using command = open(bucket);
  const entryCount = () => bucket.keys().filter((key) => key.startsWith('catalog/')).length;
  const highest = () =>
    bucket
      .keys()
      .filter((key) => key.startsWith('catalog/'))
      .at(-1) ?? '';
  for (let keepLast = 1; highest() < catalogKey(seq) && keepLast <= 2 * RING; keepLast++)
    await command.admin.setRetention({ keepLast: 1000 + keepLast });
  expect(highest()).toBe(catalogKey(seq));
  expect(entryCount()).toBe(seq);
}

/**
 * The takeover of this process meets `fault`. The store then does not answer until `isAway` is
 * cleared.
 */
function processWhoseTakeoverMeets(fault: FaultName, bucket: MemoryBucket) {
  const store = { isAway: false };
  const { manager } = processOn(bucket, {
    settings: { recordTimeoutMs: 300 },
    plan: ({ operation, key }) => {
      if (store.isAway) return FAULTS.loseRequest;
      if (operation !== 'create' || key !== catalogKey(SENT_ON + 1)) return undefined;
      store.isAway = true;
      return FAULTS[fault];
    },
  });
  return { manager, store };
}

async function failsToJoin(fault: FaultName, bucket: MemoryBucket): Promise<RunManager> {
  const { manager, store } = processWhoseTakeoverMeets(fault, bucket);
  expect(await failure(save(manager, 2))).toMatch(/^TimedOut: joining the run/);
  store.isAway = false;
  return manager;
}

test.each([
  ['in the ring', RING, /^Fenced: attempt "drawn-\w+" is no longer current/],
  [
    'no longer in the ring',
    RING + 1,
    /^Fenced: it cannot be known whether attempt "drawn-\w+" has owned the run/,
  ],
])(
  'I5: a takeover that landed and passed unseen gives no second turn: it is %s',
  async (_, after, refusal) => {
    const bucket = await runOfFirstJob();
    await using late = await failsToJoin('loseReply', bucket);
    await using next = open(bucket, { attempt: 'job-1' });
    await save(next, 2);
    await decideUpTo(SENT_ON + after, bucket);
    for (let call = 0; call < 2; call++) expect(await failure(save(late, 9))).toMatch(refusal);
    expect((await save(next, 3)).isCommitted).toBe(true);
  },
);

/**
 * The reply to the takeover is lost, and `others` act before the process reads again, all within
 * one call of `join`.
 */
function processOvertakenIn(bucket: MemoryBucket, others: () => Promise<void>): RunManager {
  let isSent = false;
  const { manager } = processOn(bucket, {
    clock: systemClock, // others act while its requests wait
    plan: ({ operation, key }) => {
      if (operation !== 'create' || key !== catalogKey(SENT_ON + 1)) return undefined;
      isSent = true;
      return FAULTS.loseReply;
    },
    change: (below) => {
      const list = MemoryStore.prototype.list.bind(below);
      below.list = async function* (...call) {
        if (isSent) {
          isSent = false;
          await others();
        }
        yield* list(...call);
      };
    },
  });
  return manager;
}

test('I5: it has no second turn within one call either', async () => {
  const bucket = await runOfFirstJob();
  await using next = open(bucket, { attempt: 'job-1' });
  await using late = processOvertakenIn(bucket, async () => {
    await save(next, 2);
    await decideUpTo(SENT_ON + RING + 1, bucket);
  });
  expect(await failure(save(late, 9))).toMatch(/^Fenced: it cannot be known whether attempt/);
  expect((await save(next, 3)).isCommitted).toBe(true);
});

test('I5: nor if the process has read a newer catalog by the time at which its join fails', async () => {
  const bucket = await runOfFirstJob();
  await using next = open(bucket, { attempt: 'job-1' });
  const isStalled = Promise.withResolvers<void>();
  const clock = new ManualClock();
  let isSent = false;
  const { manager: late } = processOn(bucket, {
    clock,
    settings: { recordTimeoutMs: 300 },
    plan: ({ operation, key }) => {
      if (operation === 'create' && key === catalogKey(SENT_ON + 1)) {
        isSent = true;
        return FAULTS.loseReply;
      }
      if (!isSent) return undefined;
      isSent = false;
      isStalled.resolve();
      return FAULTS.stall; // until the join's deadline
    },
  });
  const refused = failure(save(late, 9));
  await isStalled.promise;
  await save(next, 2);
  await decideUpTo(SENT_ON + RING + 1, bucket);
  expect(await late.list()).toHaveLength(2);
  await clock.advance(300);
  expect(await refused).toMatch(/^TimedOut: joining the run/);
  expect(await failure(save(late, 9))).toMatch(/^Fenced: it cannot be known whether attempt/);
  expect((await save(next, 3)).isCommitted).toBe(true);
  await late.close();
});

test('I7: a process whose attempt owns the run is not told otherwise, though the ring has forgotten its takeover', async () => {
  const bucket = await runOfFirstJob();
  await using late = processOvertakenIn(bucket, () => decideUpTo(SENT_ON + RING + 1, bucket));
  expect((await save(late, 9)).isCommitted).toBe(true);
});

test.each([
  ['that never landed, as the ring tells', 'loseRequest', RING],
  ['that landed and is the present one, however many decisions came after it', 'loseReply', RING + 9],
] as const)('I10: a takeover %s: the process joins and saves', async (_, fault, after) => {
  const bucket = await runOfFirstJob();
  await using late = await failsToJoin(fault, bucket);
  await decideUpTo(SENT_ON + after, bucket);
  expect((await save(late, 9)).isCommitted).toBe(true);
});

test('where the ring does not tell whether a takeover landed, the process is told to start again; another takes over', async () => {
  const bucket = await runOfFirstJob();
  await using late = await failsToJoin('loseRequest', bucket);
  await decideUpTo(SENT_ON + RING + 1, bucket);
  expect(await failure(save(late, 9))).toMatch(
    /^Fenced: it cannot be known whether .*; start the process again$/,
  );
  await using restarted = open(bucket);
  expect((await save(restarted, 9)).isCommitted).toBe(true);
});
