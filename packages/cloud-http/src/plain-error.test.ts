import { inspect } from 'node:util';
import { CheckpointError } from '@holdfast/core/contract';
import { DirectHttpError } from '@holdfast/direct-http';
import { describe, expect, it } from 'vitest';
import { told } from './plain-error.ts';

const CANARY = 'canary-canary-canary';
const shownWhole = (value: unknown) => inspect(value, { depth: null, showHidden: true });

describe('what is told of an error of others', () => {
  it('is name, message, code and stack, of its causes too, and nothing that hangs on it', () => {
    const inner = Object.assign(new RangeError('inner'), { config: { headers: { authorization: CANARY } } });
    const each = Object.assign(new Error('one of them'), { input: CANARY });
    const error = Object.assign(new AggregateError([each], 'outer', { cause: inner }), {
      name: 'SdkError',
      code: 'ERR_X',
      $response: { body: CANARY },
    });
    Object.defineProperty(error, 'hidden', { value: CANARY, enumerable: false });
    const copy = told(error) as AggregateError;
    expect([copy.name, copy.message, (copy as { code?: string }).code]).toEqual([
      'SdkError',
      'outer',
      'ERR_X',
    ]);
    expect(copy.stack).toBe(error.stack);
    expect(copy.cause).toMatchObject({ name: 'RangeError', message: 'inner' });
    expect(copy.errors).toMatchObject([{ message: 'one of them' }]);
    expect(shownWhole(copy)).not.toContain(CANARY);
  });

  it('repeats no secret in message or stack', () => {
    const error = new Error(`no tunnel: ${CANARY}`, { cause: new TypeError(CANARY) });
    const copy = told(error, [CANARY]) as Error;
    expect(copy.message).toBe('no tunnel: [secret]');
    expect(shownWhole(copy)).not.toContain(CANARY);
  });

  it('is what the direct client says of it, with where it happened', () => {
    const error = new DirectHttpError('CLOSED_EARLY', 'gone', { phase: 'body', bytes: 7, isStale: true });
    expect(told(error)).toBeInstanceOf(DirectHttpError);
    expect(told(error)).toMatchObject({ code: 'CLOSED_EARLY', phase: 'body', bytes: 7, isStale: true });
  });

  it('an error of ours stays itself; what is no error is nothing', () => {
    const error = new CheckpointError('Denied', 'no');
    expect(told(error)).toBe(error);
    expect(told({ token: CANARY })).toBeUndefined();
    expect(told(CANARY)).toBeUndefined();
  });

  it('a cause that contains itself does not loop', () => {
    const error = new Error('round');
    error.cause = error;
    expect(shownWhole(told(error))).toContain('round');
  });
});
