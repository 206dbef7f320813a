import { CheckpointError } from '@holdfast/core/contract';
import { DirectHttpError } from '@holdfast/direct-http';
import { describe, expect, it } from 'vitest';
import { HttpRefusal } from './errors.ts';
import { StoreCalls } from './store-calls.ts';

const OF_STORE = new CheckpointError('Unavailable', 'translated');
const callsOf = () => new StoreCalls('zz://p', () => OF_STORE);
const CALL = { action: 'read', key: 'a' };

describe('StoreCalls', () => {
  it('an error of a call is translated', async () => {
    await expect(callsOf().run(CALL, () => Promise.reject(new Error('x')))).rejects.toBe(OF_STORE);
  });

  it('another server in the place of the store is a fault that may pass, once the store has answered', async () => {
    const page = new HttpRefusal(
      { status: 404, headers: {}, hasBody: true },
      { code: '', message: '', requestId: undefined },
    );
    const calls = new StoreCalls(
      'zz://p',
      (cause) => new CheckpointError('InvalidConfig', 'this is no store', { cause }),
    );
    const failing = (error: Error) => calls.run(CALL, () => Promise.reject(error));
    await expect(failing(page)).rejects.toMatchObject({ code: 'InvalidConfig', status: 'permanent' });
    await calls.run(CALL, () => Promise.resolve());
    await expect(failing(page)).rejects.toMatchObject({
      code: 'Unavailable',
      status: 'temporary',
      message: 'for now, this is no store',
    });
    await expect(failing(new Error('of another kind'))).rejects.toMatchObject({ code: 'InvalidConfig' });
  });

  it('an invalid key, or a signal that has fired, is refused before anything is done', async () => {
    const never = () => Promise.reject(new Error('it was done'));
    await expect(callsOf().run({ ...CALL, key: '../a' }, never)).rejects.toMatchObject({
      code: 'InvalidArgument',
    });
    await expect(callsOf().run({ ...CALL, signal: AbortSignal.abort() }, never)).rejects.toMatchObject({
      code: 'Aborted',
    });
  });

  it('a call that its signal stopped is Aborted; one that failed by itself meanwhile is not', async () => {
    const stop = new AbortController();
    const failing = (error: Error) => () => {
      stop.abort();
      return Promise.reject(error);
    };
    const call = { ...CALL, signal: stop.signal };
    const later = callsOf();
    const aborted = new DirectHttpError('ABORTED', 'stopped', { phase: 'head' });
    await expect(later.run(call, failing(aborted))).rejects.toMatchObject({ code: 'Aborted' });
  });

  it('close stops what is under way, waits for it, and refuses what comes after', async () => {
    const calls = callsOf();
    let fail: (error: Error) => void = () => undefined;
    let isOver = false;
    const running = calls
      .run(CALL, () => new Promise((_, reject) => (fail = reject)))
      .finally(() => (isOver = true));
    const told = expect(running).rejects.toMatchObject({ code: 'Aborted', message: 'zz://p was closed' });
    await calls.close(() => {
      fail(new Error('connection closed'));
      return Promise.resolve();
    });
    await told;
    expect(isOver).toBe(true);
    await expect(calls.run(CALL, () => Promise.resolve(1))).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: 'zz://p is closed',
    });
  });

  it('a refusal that came before the close is told as what it is', async () => {
    const calls = callsOf();
    const refusal = new HttpRefusal(
      { status: 403, headers: {}, hasBody: true },
      { code: 'No', message: '', requestId: undefined },
    );
    let fail: (error: Error) => void = () => undefined;
    const running = calls.run(CALL, () => new Promise((_, reject) => (fail = reject)));
    const told = expect(running).rejects.toBe(OF_STORE);
    await calls.close(() => {
      fail(refusal);
      return Promise.resolve();
    });
    await told;
  });
});
