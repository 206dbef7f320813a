import { expect, test } from 'vitest';
import type { SealRecord } from '../staging/stage.ts';
import { SealRecords } from './seal-records.ts';

const RECORD: SealRecord = {
  ...{ saveId: '1', version: '1', files: [], sealed: true },
  ...{ isDelivered: false, isSettled: false, begunWith: '' },
};

/** A stage whose writes last until they are let go. */
function slowStage() {
  const held: (() => void)[] = [];
  const inStage = new Map<string, SealRecord>();
  const hold = () => new Promise<void>((resolve) => held.push(resolve));
  return {
    inStage,
    /** Lets the oldest write go; none may wait beside it. */
    letGo: async () => {
      await expect.poll(() => held.length).toBe(1);
      held.pop()?.();
    },
    seal: async (_: string, record: SealRecord) => {
      await hold();
      inStage.set(record.saveId, record);
    },
    unseal: async (_: string, saveId: string) => {
      await hold();
      inStage.delete(saveId);
    },
  };
}

test('two changes at once are both in the record', async () => {
  const stage = slowStage();
  const records = new SealRecords(stage, 'w');
  records.know(RECORD);
  const changes = [records.amend('1', { isSettled: true }), records.amend('1', { isDelivered: true })];
  for (const _ of changes) await stage.letGo();
  await Promise.all(changes);
  expect(stage.inStage.get('1')).toEqual({ ...RECORD, isSettled: true, isDelivered: true });
});

test('a change that comes after the end, or during it, brings no record back', async () => {
  const stage = slowStage();
  const records = new SealRecords(stage, 'w');
  const adding = records.add(RECORD);
  await stage.letGo();
  await adding;
  const ending = [records.remove('1'), records.amend('1', { isSettled: true })];
  await stage.letGo();
  await Promise.all(ending);
  expect([...stage.inStage]).toEqual([]);
});

test('a change that cannot be written leaves the record, and the next one is written', async () => {
  const stage = slowStage();
  let failures = 1;
  const seal = async (writer: string, record: SealRecord) => {
    if (failures-- > 0) throw new Error('full');
    await stage.seal(writer, record);
  };
  const records = new SealRecords({ ...stage, seal }, 'w');
  records.know(RECORD);
  await records.amend('1', { isSettled: true });
  const next = records.amend('1', { isDelivered: true });
  await stage.letGo();
  await next;
  expect(stage.inStage.get('1')).toEqual({ ...RECORD, isDelivered: true });
});

test('an agent that stops leaves the records to the next one', async () => {
  const stage = slowStage();
  const records = new SealRecords(stage, 'w');
  records.know(RECORD);
  records.close();
  await records.amend('1', { isSettled: true });
  expect([...stage.inStage]).toEqual([]);
});

test('records of commits stay, and the oldest of many are removed', async () => {
  const inStage = new Set<string>();
  const stage = {
    seal: async (_: string, { saveId }: SealRecord) => void inStage.add(saveId),
    unseal: async (_: string, saveId: string) => void inStage.delete(saveId),
  };
  const committed = { id: { lineage: 1, epoch: 1, version: 1n }, sizeBytes: 1, referencedBytes: 0 };
  const records = new SealRecords(stage, 'w');
  records.know({ ...RECORD, saveId: 'of an earlier agent', committed });
  inStage.add('of an earlier agent');
  await records.add(RECORD);
  for (let count = 0; count < 63; count += 1)
    await records.commit({ ...RECORD, saveId: `${count}`, committed });
  expect([inStage.size, inStage.has('of an earlier agent')]).toEqual([65 - 1, true]);
  await records.commit({ ...RECORD, saveId: 'last', committed });
  expect([inStage.size, inStage.has('of an earlier agent'), inStage.has('0')]).toEqual([64, false, true]);
});
