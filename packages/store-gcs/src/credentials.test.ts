import { describe, expect, it } from 'vitest';
import { credentialsError, RefusedToken } from './credentials.ts';

describe('what the token server refuses', () => {
  const refused = (status: number, body: string) =>
    credentialsError(new RefusedToken({ status, headers: {}, hasBody: true }, body));

  it.each<[string, number, string, string, string]>([
    [
      'a key that is gone',
      400,
      '{"error":"invalid_grant","error_description":"canary"}',
      'Denied',
      'invalid_grant, HTTP 400',
    ],
    ['an error of another form', 401, '{"error":{"code":"canary"}}', 'Denied', 'HTTP 401'],
    ['a page', 403, '<html>canary</html>', 'Denied', 'HTTP 403'],
    ['half an answer', 403, '{"error":"canary', 'Denied', 'HTTP 403'],
    ['a server that stumbles', 503, '', 'Unavailable', 'no token at present (RefusedToken, HTTP 503)'],
  ])('%s', (_name, status, body, code, words) => {
    const { message, code: found } = refused(status, body);
    expect([found, message]).toEqual([code, expect.stringContaining(words)]);
    expect(message).not.toContain('canary');
  });
});

describe('what the library fails with', () => {
  const answered = (status: number, message: string) =>
    Object.assign(new Error(message), { response: { status } });

  it.each<[string, Error, string, string]>([
    [
      'no credentials anywhere',
      new Error('Could not load the default credentials. Browse to https://…'),
      'Denied',
      'gcloud auth application-default login',
    ],
    ['a grant that is over', answered(400, 'invalid_grant: Token has been revoked.'), 'Denied', 'revoked'],
    ['a machine without a service account', answered(404, 'not found'), 'Denied', 'refused'],
    ['a token server that stumbles', answered(503, 'try later'), 'Unavailable', 'at present'],
    ['one that is asked too often', answered(429, 'slow down'), 'Unavailable', 'at present'],
    [
      'a network that is down',
      Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }),
      'Unavailable',
      'at present',
    ],
    [
      'no answer in time',
      Object.assign(new Error('The operation was aborted due to timeout'), { code: 'TimeoutError' }),
      'Unavailable',
      'at present',
    ],
    [
      'a file that cannot be used',
      Object.assign(
        new Error('Unable to read the credential file specified by GOOGLE_APPLICATION_CREDENTIALS: gone'),
        { code: 'ENOENT' },
      ),
      'InvalidConfig',
      'GOOGLE_APPLICATION_CREDENTIALS',
    ],
  ])('%s', (_name, error, code, words) => {
    const found = credentialsError(error);
    expect(found.code).toBe(code);
    expect(found.message).toContain(words);
    expect(found.cause).toBeUndefined();
  });
});
