import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { LibraryFailure } from './library-failure.ts';

const CANARY = 'canary-canary-canary';

const failing = (name: string, rest: object = {}, cause?: unknown) =>
  Object.assign(new Error(CANARY, { cause }), { name, config: CANARY, ...rest });

describe('what a library fails with', () => {
  it.each<[string, unknown, string, boolean]>([
    ['only a name', failing('CredentialsProviderError'), 'CredentialsProviderError', false],
    ['of the system', failing('Error', { code: 'ENOENT' }), 'Error, ENOENT', false],
    [
      'of the network, beneath',
      failing('X', {}, failing('Error', { code: 'ECONNRESET' })),
      'X, ECONNRESET',
      true,
    ],
    [
      'of several that were tried',
      new AggregateError([failing('Y'), failing('Z', { code: 'ETIMEDOUT' })]),
      'AggregateError, ETIMEDOUT',
      true,
    ],
    ['an answer', failing('A', { response: { status: 403, data: {} } }), 'A, HTTP 403', false],
    ['an answer that may pass', failing('A', { $metadata: { httpStatusCode: 503 } }), 'A, HTTP 503', true],
    [
      'a word of OAuth',
      failing('A', { response: { status: 400, data: { error: 'invalid_grant' } } }),
      'A, invalid_grant, HTTP 400',
      false,
    ],
    [
      'a number of Entra ID',
      failing('A', { statusCode: 401, errorResponse: { error: CANARY, errorCodes: [7000215] } }),
      'A, AADSTS7000215, HTTP 401',
      false,
    ],
    [
      'a number of Entra ID, as Microsoft tells it beneath',
      failing(
        'A',
        {},
        failing('ServerError', { errorCode: 'invalid_client', errorNo: '7000215', status: 401 }),
      ),
      'A, AADSTS7000215, HTTP 401',
      false,
    ],
    ['no network, in the words of Microsoft', failing('A', { errorCode: 'network_error' }), 'A', true],
    [
      'a connection of ours that ended',
      failing('DirectHttpError', { code: 'CLOSED_EARLY' }),
      'DirectHttpError, CLOSED_EARLY',
      true,
    ],
    [
      'a connection of ours that was not made',
      failing('DirectHttpError', { code: 'CONNECT_FAILED' }),
      'DirectHttpError, CONNECT_FAILED',
      true,
    ],
    ['a code that is none', failing(`${CANARY} x`, { code: CANARY }), 'Error', false],
    ['no error', CANARY, 'Error', false],
  ])('%s', (_name, error, message, isTemporary) => {
    const failure = new LibraryFailure(error);
    expect([failure.message, failure.isTemporary]).toEqual([message, isTemporary]);
    const shown = inspect(failure, { depth: null, showHidden: true });
    expect(shown.replaceAll(import.meta.filename, '')).not.toContain(CANARY);
  });

  it('says where it came from', () => {
    expect(new LibraryFailure(failing('A')).stack).toContain('library-failure.test.ts');
  });

  it('ends where causes go round', () => {
    const error = failing('A');
    error.cause = error;
    expect(new LibraryFailure(error).message).toBe('A');
  });
});
