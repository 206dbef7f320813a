import type { RefusedAnswer, TransportAnswer, TransportRequest } from '@holdfast/cloud-http';
import { CredentialsError } from '@holdfast/cloud-http';
import { describe, expect, it } from 'vitest';
import { foreignSuccess, isErrorOfSuccess, refusalOf, storeError } from './errors.ts';

const OBJECT = { store: 'gs://runs/gpt', key: 'a/b' };
const GOOGLE = { 'x-guploader-uploadid': 'U1' };

const jsonError = (reason: string, message = `told ${reason}`) =>
  JSON.stringify({ error: { code: 400, message, errors: [{ domain: 'global', reason, message }] } });
const xmlError = (code: string, message = `told ${code}`, extra = '') =>
  `<?xml version='1.0' encoding='UTF-8'?><Error><Code>${code}</Code><Message>${message}</Message>${extra}</Error>`;

function refused(
  status: number,
  body: string,
  action = 'complete',
  headers: RefusedAnswer['headers'] = GOOGLE,
) {
  return storeError(refusalOf({ status, headers, hasBody: true }, body), action, OBJECT);
}

describe('a refusal by its reason', () => {
  it.each([
    ['notFound', 404, 'NotFound', 'permanent'],
    ['conditionNotMet', 412, 'AlreadyExists', 'permanent'],
    ['orgPolicyConstraintFailed', 412, 'Denied', 'permanent'],
    ['forbidden', 403, 'Denied', 'permanent'],
    ['insufficientPermissions', 403, 'Denied', 'permanent'],
    ['accessNotConfigured', 403, 'Denied', 'permanent'],
    ['accountDisabled', 403, 'Denied', 'permanent'],
    ['authError', 401, 'Denied', 'permanent'],
    ['required', 401, 'Denied', 'permanent'],
    ['required', 400, 'Unexpected', 'permanent'],
    ['retentionPolicyNotMet', 403, 'Denied', 'permanent'],
    ['objectUnderActiveHold', 403, 'Denied', 'permanent'],
    ['userProjectMissing', 400, 'InvalidConfig', 'permanent'],
    ['userProjectInvalid', 400, 'InvalidConfig', 'permanent'],
    ['userProjectAccessDenied', 403, 'Denied', 'permanent'],
    ['cloudKmsDisabledKey', 400, 'InvalidConfig', 'permanent'],
    ['cloudKmsEncryptionKeyNotFound', 400, 'InvalidConfig', 'permanent'],
    ['customerEncryptionKeyIsIncorrect', 400, 'InvalidConfig', 'permanent'],
    ['resourceIsEncryptedWithCustomerEncryptionKey', 400, 'InvalidConfig', 'permanent'],
    ['resourceNotEncryptedWithCustomerEncryptionKey', 400, 'InvalidConfig', 'permanent'],
    ['invalid', 400, 'InvalidArgument', 'permanent'],
    ['parseError', 400, 'InvalidArgument', 'permanent'],
    ['methodNotAllowed', 405, 'Unsupported', 'permanent'],
    ['rateLimitExceeded', 429, 'Throttled', 'temporary'],
    ['userRateLimitExceeded', 403, 'Throttled', 'temporary'],
    ['quotaExceeded', 403, 'Throttled', 'temporary'],
    ['conflict', 409, 'Unavailable', 'temporary'],
    ['backendError', 503, 'Unavailable', 'temporary'],
    ['internalError', 500, 'Unavailable', 'temporary'],
    ['neverHeardOf', 418, 'Unexpected', 'permanent'],
    ['neverHeardOf', 503, 'Unavailable', 'temporary'],
  ])('JSON: %s (%i) is %s, %s', (reason, status, code, expected) => {
    const error = refused(status, jsonError(reason));
    expect([error.code, error.status]).toEqual([code, expected]);
    expect(error.context.store).toBe(OBJECT.store);
  });

  it.each([
    ['NoSuchUpload', 404, 'NotFound', 'permanent'],
    ['NoSuchKey', 404, 'NotFound', 'permanent'],
    ['PreconditionFailed', 412, 'AlreadyExists', 'permanent'],
    ['AccessDenied', 403, 'Denied', 'permanent'],
    ['AuthenticationRequired', 401, 'Denied', 'permanent'],
    ['ObjectUnderActiveHold', 403, 'Denied', 'permanent'],
    ['SecurityPolicyViolated', 403, 'Denied', 'permanent'],
    ['UserProjectMissing', 400, 'InvalidConfig', 'permanent'],
    ['InvalidPart', 400, 'InvalidArgument', 'permanent'],
    ['EntityTooSmall', 400, 'InvalidArgument', 'permanent'],
    ['BadDigest', 400, 'Corrupt', 'permanent'],
    ['CrcMismatch', 400, 'Corrupt', 'permanent'],
    ['InvalidDigest', 400, 'Corrupt', 'permanent'],
    ['NotImplemented', 501, 'Unsupported', 'permanent'],
    ['SlowDown', 503, 'Throttled', 'temporary'],
    ['InternalError', 500, 'Unavailable', 'temporary'],
    ['RequestTimeout', 400, 'Unavailable', 'temporary'],
  ])('XML: %s (%i) is %s, %s', (name, status, code, expected) => {
    const error = refused(status, xmlError(name));
    expect([error.code, error.status]).toEqual([code, expected]);
  });

  it('one in the newer form, with a status of its own', () => {
    const body = JSON.stringify({ error: { code: 403, message: 'no', status: 'PERMISSION_DENIED' } });
    expect(refused(403, body).code).toBe('Denied');
  });

  it.each([
    [400, 'complete', 'InvalidArgument'],
    [401, 'read', 'Denied'],
    [403, 'create', 'Denied'],
    [404, 'read', 'NotFound'],
    [409, 'create', 'Unavailable'],
    [412, 'create', 'AlreadyExists'],
    [429, 'list', 'Throttled'],
    [500, 'list', 'Unavailable'],
    [503, 'complete', 'Unavailable'],
  ])('JSON without a reason: %i to %s is %s, and no foreign server', (status, action, code) => {
    const body = JSON.stringify({ error: { code: status, message: 'told' } });
    expect(refused(status, body, action, {}).code).toBe(code);
  });

  it('JSON of a 404 without a reason, to a call that needs the bucket alone: the bucket is missing', () => {
    const body = JSON.stringify({ error: { code: 404, message: 'told' } });
    expect(refused(404, body, 'list', {}).context['bucket']).toBe('missing');
    const foreign = JSON.stringify({ error: { code: 'x', message: 'told' } });
    expect(refused(404, foreign, 'list', {}).context['bucket']).toBeUndefined();
  });

  it('a checksum that does not match has no reason of its own', () => {
    const words = 'Provided CRC32C "AAAAAA==" doesn\'t match calculated CRC32C "EjSrzQ==".';
    expect(refused(400, jsonError('invalid', words)).code).toBe('Corrupt');
  });

  it('keeps the words of the store, which name the permission that is missing', () => {
    const words =
      "sa@p.iam does not have storage.objects.create access to the object. Permission 'storage.objects.create' denied.";
    const error = refused(403, jsonError('forbidden', words), 'create');
    expect(error.message).toBe(`cannot create object a/b in gs://runs/gpt: ${words} (forbidden)`);
    expect(error.context).toMatchObject({
      key: 'a/b',
      storeCode: 'forbidden',
      httpStatus: 403,
      requestId: 'U1',
    });
    const text = refused(403, `${words}\n`, 'read');
    expect([text.code, text.message]).toEqual([
      'Denied',
      `cannot read object a/b in gs://runs/gpt: ${words} (HTTP 403)`,
    ]);
    const xml = refused(403, xmlError('AccessDenied', 'Access denied.', `<Details>${words}</Details>`));
    expect(xml.message).toContain(`Access denied. ${words} (AccessDenied)`);
  });

  it.each([
    ['userProjectMissing', 'name the project that pays with userProject='],
    ['retentionPolicyNotMet', "its bucket's retention policy keeps it"],
    ['objectUnderActiveHold', 'it is under a hold'],
    ['customerEncryptionKeyIsIncorrect', 'a HOLDFAST_GCS_CUSTOMER_KEY that differs'],
    ['authError', 'the store does not accept the token'],
  ])('%s: says what a person does about it', (reason, advice) => {
    expect(refused(400, jsonError(reason)).message).toContain(advice);
  });

  it('the store requires credentials and none were sent: says how to send some', () => {
    const refusal = refusalOf(
      { status: 401, headers: GOOGLE, hasBody: true },
      jsonError('required', 'Anonymous caller'),
    );
    const error = storeError(refusal, 'read', { ...OBJECT, isAnonymous: true });
    expect(error).toMatchObject({ code: 'Denied' });
    expect(error.message).toContain('auth=true');
  });
});

describe('what is missing', () => {
  it.each(['read', 'look at', 'delete'])('%s: the object', (action) => {
    const error = refused(404, jsonError('notFound', 'No such object: runs/gpt/a/b'), action);
    expect([error.code, error.message]).toEqual(['NotFound', 'object a/b in gs://runs/gpt does not exist']);
  });

  it.each([
    ['read', jsonError('notFound', 'The specified bucket does not exist.')],
    ['read', 'The specified bucket does not exist.'],
    ['complete', xmlError('NoSuchBucket')],
    ['create', jsonError('notFound', 'Not Found')],
    ['list', jsonError('notFound', 'Not Found')],
    ['begin an upload to', jsonError('notFound', 'Not Found')],
  ])('%s: the bucket', (action, body) => {
    const error = refused(404, body, action);
    expect([error.code, error.message]).toEqual([
      'NotFound',
      'gs://runs/gpt names a bucket that does not exist',
    ]);
    expect(error.context).toEqual({ store: 'gs://runs/gpt', bucket: 'missing' });
  });

  it('an upload is told as such', () => {
    expect(refused(404, xmlError('NoSuchUpload')).message).toContain('(NoSuchUpload)');
  });
});

describe('answers of others', () => {
  it.each([200, 302, 404])('%i in another form: no GCS is there', (status) => {
    const error = refused(status, '<html>log in</html>', 'read', {});
    expect(error).toMatchObject({ code: 'InvalidConfig', status: 'permanent' });
    expect(error.message).toContain('does not lead to a server that speaks GCS');
    // The object may be there all the same.
    expect(refused(status, '<html>log in</html>', 'create', {}).status).toBe('exhausted');
  });

  it.each([
    [502, 'Unavailable'],
    [413, 'InvalidConfig'],
    [429, 'Throttled'],
  ])('%i may be of a proxy', (status, code) => {
    expect(refused(status, '<html></html>', 'read', {}).code).toBe(code);
  });

  it('a success that is no JSON of GCS', () => {
    const answer: TransportAnswer = {
      status: 200,
      headers: {},
      body: new Uint8Array(0),
      bytesInto: undefined,
    };
    expect(storeError(foreignSuccess(answer), 'create', OBJECT).code).toBe('InvalidConfig');
  });

  it('broken JSON is judged by its status', () => {
    expect(refused(503, '{"error":').code).toBe('Unavailable');
    expect(refused(503, '{"error": 7}').code).toBe('Unavailable');
  });

  it('the wait that the store asks for is kept', () => {
    const error = refused(429, jsonError('rateLimitExceeded'), 'create', { ...GOOGLE, 'retry-after': '7' });
    expect(error.retryAfterMs).toBe(7000);
  });
});

describe('errors in answers of success', () => {
  const isError = (method: string, body: string, status = 200) =>
    isErrorOfSuccess({ method } as TransportRequest, {
      status,
      headers: {},
      body: Buffer.from(body),
      bytesInto: undefined,
    });

  it('are seen, blanks before them included', () => {
    expect(isError('POST', xmlError('InternalError'))).toBe(true);
    expect(isError('POST', `\n  ${xmlError('InternalError')}`)).toBe(true);
    expect(isError('POST', jsonError('backendError'))).toBe(true);
  });

  it('are not looked for in objects, nor found in other answers', () => {
    expect(isError('GET', xmlError('InternalError'))).toBe(false);
    expect(isError('POST', '{"name":"error"}')).toBe(false);
    expect(isError('PUT', '')).toBe(false);
  });
});

describe('without a token', () => {
  it.each(['Denied', 'InvalidConfig', 'Unavailable'] as const)(
    '%s: told as such, with the object',
    (code) => {
      const error = storeError(new CredentialsError(code, 'no credentials were found'), 'read', OBJECT);
      expect(error).toMatchObject({
        code,
        message: 'cannot read object a/b in gs://runs/gpt: no credentials were found',
        context: { store: 'gs://runs/gpt', key: 'a/b' },
      });
    },
  );
});

it('a connection that breaks is temporary', () => {
  const error = storeError(
    Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }),
    'read',
    OBJECT,
  );
  expect([error.code, error.status]).toEqual(['Unavailable', 'temporary']);
});
