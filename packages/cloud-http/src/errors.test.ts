import { DirectHttpError } from '@holdfast/direct-http';
import { describe, expect, it } from 'vitest';
import { HttpRefusal, objectError, refusalError, requestError } from './errors.ts';

const OBJECT = { store: 's3://runs/gpt', key: 'a/b' };

function refusal(status: number, code: string, headers: Record<string, string> = {}): HttpRefusal {
  return new HttpRefusal({ status, headers, hasBody: true }, { code, message: '', requestId: 'R1' });
}

describe('a refusal', () => {
  it('as an error says what was to be done, what the store said, and how long to wait', () => {
    const error = refusalError(refusal(503, 'Busy', { 'retry-after': '2' }), {
      action: 'create',
      subject: OBJECT,
      code: 'Throttled',
      hint: 'too much',
    });
    expect(error).toMatchObject({ code: 'Throttled', status: 'temporary', retryAfterMs: 2000 });
    expect(error.message).toBe('cannot create object a/b in s3://runs/gpt: too much (Busy)');
    expect(error.context).toMatchObject({ key: 'a/b', storeCode: 'Busy', httpStatus: 503, requestId: 'R1' });
  });

  it.each([
    ['7', 7000],
    ['Wed, 21 Oct 2026 07:28:07 GMT', 7000],
    ['Wed, 21 Oct 2026 07:27:00 GMT', undefined],
    ['0', undefined],
    ['soon', undefined],
  ])('Retry-After: %s, by the clock of the server', (asked, waitMs) => {
    const date = 'Wed, 21 Oct 2026 07:28:00 GMT';
    expect(refusal(503, 'Busy', { 'retry-after': asked, date }).retryAfterMs).toBe(waitMs);
  });

  it('an answer without code or request id is from another server, unless a proxy may answer so', () => {
    const foreign = (status: number) =>
      new HttpRefusal({ status, headers: {}, hasBody: true }, { code: '', message: '', requestId: undefined })
        .isForeign;
    expect([404, 403, 502, 429].map(foreign)).toEqual([true, true, false, false]);
  });
});

describe('a failure without an answer', () => {
  const withCode = (code: string, message = code) => Object.assign(new Error(message), { code });

  it.each([
    ['ECONNREFUSED', 'Unavailable', 'temporary', 'ECONNREFUSED'],
    ['ECONNRESET', 'Unavailable', 'temporary', 'ECONNRESET'],
    ['ENOTFOUND', 'Unavailable', 'temporary', 'the name of the server cannot be resolved'],
    ['EAI_AGAIN', 'Unavailable', 'temporary', 'the name of the server cannot be resolved'],
    ['SELF_SIGNED_CERT_IN_CHAIN', 'InvalidConfig', 'permanent', 'ca='],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'InvalidConfig', 'permanent', 'is not trusted'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'InvalidConfig', 'permanent', 'is not trusted'],
  ])('%s is %s, %s', (code, expected, status, words) => {
    const cause = new DirectHttpError('CONNECT_FAILED', 'no connection', {
      phase: 'connect',
      cause: withCode(code),
    });
    const error = requestError(cause, 'list', { store: OBJECT.store });
    expect([error.code, error.status]).toEqual([expected, status]);
    expect(error.message).toContain(words);
  });

  it.each(['TIMED_OUT', 'CLOSED_EARLY', 'BAD_HEAD', 'BAD_BODY', 'RANGE_MISMATCH', 'UNEXPECTED'] as const)(
    '%s, after which the outcome is not known, is temporary',
    (code) => {
      const cause = new DirectHttpError(code, 'told so', { phase: 'head' });
      expect(requestError(cause, 'create', OBJECT)).toMatchObject({
        code: 'Unavailable',
        status: 'temporary',
      });
    },
  );

  it('https to a port that speaks http says so; TLS that breaks after the handshake may be tried again', () => {
    const told = (phase: 'connect' | 'body', message: string) =>
      requestError(
        new DirectHttpError('TLS_FAILED', 'TLS failed', { phase, cause: withCode('ERR_SSL_X', message) }),
        'create',
        OBJECT,
      );
    expect(told('connect', 'wrong version number')).toMatchObject({
      code: 'InvalidConfig',
      message: expect.stringContaining('does not speak TLS there; write http://'),
    });
    expect(told('body', 'bad record mac')).toMatchObject({ code: 'Unavailable', status: 'temporary' });
    expect(told('body', 'wrong version number')).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });

  it('the error names the first of several addresses that were tried', () => {
    const cause = new AggregateError([
      withCode('ECONNREFUSED', 'connect ECONNREFUSED ::1:9'),
      withCode('EHOSTUNREACH'),
    ]);
    expect(requestError(cause, 'list', OBJECT).message).toContain('connect ECONNREFUSED ::1:9');
  });

  it('a fault of our own promises nothing about what the request has done', () => {
    expect(requestError(new TypeError('x is undefined'), 'create', OBJECT)).toMatchObject({
      code: 'Unexpected',
      status: 'exhausted',
    });
  });

  it('an error that is ours already stays as it is', () => {
    const error = objectError('Corrupt', OBJECT, 'is damaged');
    expect(requestError(error, 'read', OBJECT)).toBe(error);
  });
});
