import { CheckpointError } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { bytes, newBucket, open } from './memory-run.ts';

test.each([
  ['and to all that follows', true],
  ['and the store itself to all that follows', false],
])('I7: another server answers the request that decides, after it was passed on, %s', async (_, stays) => {
  const bucket = newBucket();
  const store = new MemoryStore(bucket);
  await using manager = open(bucket, { store });
  await manager.save({ version: 1, buffers: { a: bytes(2) } });
  let isForeign = false;
  const foreign = (status: 'exhausted' | 'permanent') =>
    new CheckpointError('InvalidConfig', 'this is no server of the store', { status });
  const create = store.create.bind(store);
  store.create = async (key, data, options) => {
    const created = await create(key, data, options);
    if (!key.startsWith('catalog/') || isForeign) return created;
    isForeign = true;
    throw foreign('exhausted');
  };
  const { list, get } = store;
  store.get = (...call) =>
    isForeign && stays ? Promise.reject(foreign('permanent')) : get.apply(store, call);
  store.list = (...call) => {
    if (isForeign && stays) throw foreign('permanent');
    return list.apply(store, call);
  };
  const saving = manager.save({ version: 2, buffers: { a: bytes(3) } });
  if (stays) {
    const error = (await saving.catch((thrown: unknown) => thrown)) as CheckpointError;
    expect(error).toMatchObject({ code: 'OutcomeUnknown', context: { token: expect.any(String) } });
    expect(error.cause).toMatchObject({ code: 'InvalidConfig' });
  } else expect((await saving).isCommitted).toBe(true);
});
