import { describe, expect, it } from 'vitest';
import { foreignSuccess, itemRefusal, refusalOf, storeError } from './errors.ts';

const OBJECT = { store: 's3://runs/gpt', key: 'a/b' };
const S3_HEADERS = { 'x-amz-request-id': 'R1' };

function xml(code: string, extra = ''): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>it &amp; that &lt;x&gt;</Message>${extra}</Error>`;
}

function refused(code: string, status: number, headers: Record<string, string> = S3_HEADERS) {
  return storeError(refusalOf({ status, headers, hasBody: true }, xml(code)), 'read', OBJECT);
}

describe('a refusal by its code', () => {
  it.each([
    ['NoSuchKey', 404, 'NotFound', 'permanent'],
    ['NoSuchUpload', 404, 'NotFound', 'permanent'],
    ['NoSuchBucket', 404, 'NotFound', 'permanent'],
    ['PreconditionFailed', 412, 'AlreadyExists', 'permanent'],
    ['ConditionalRequestConflict', 409, 'Unavailable', 'temporary'],
    ['OperationAborted', 409, 'Unavailable', 'temporary'],
    ['AccessDenied', 403, 'Denied', 'permanent'],
    ['InvalidAccessKeyId', 403, 'Denied', 'permanent'],
    ['SignatureDoesNotMatch', 403, 'Denied', 'permanent'],
    ['ExpiredToken', 400, 'Denied', 'permanent'],
    ['RequestTimeTooSkewed', 403, 'Denied', 'permanent'],
    ['PermanentRedirect', 301, 'InvalidConfig', 'permanent'],
    ['AuthorizationHeaderMalformed', 400, 'InvalidConfig', 'permanent'],
    ['InvalidBucketName', 400, 'InvalidConfig', 'permanent'],
    ['KMS.NotFoundException', 400, 'InvalidConfig', 'permanent'],
    ['InvalidPart', 400, 'InvalidArgument', 'permanent'],
    ['EntityTooSmall', 400, 'InvalidArgument', 'permanent'],
    ['BadDigest', 400, 'Corrupt', 'permanent'],
    ['XAmzContentChecksumMismatch', 400, 'Corrupt', 'permanent'],
    ['XAmzContentSHA256Mismatch', 400, 'Corrupt', 'permanent'],
    ['InvalidObjectState', 403, 'Unsupported', 'permanent'],
    ['NotImplemented', 501, 'Unsupported', 'permanent'],
    ['SlowDown', 503, 'Throttled', 'temporary'],
    ['SlowDownWrite', 503, 'Throttled', 'temporary'],
    ['InternalError', 500, 'Unavailable', 'temporary'],
    ['ServiceUnavailable', 503, 'Unavailable', 'temporary'],
    ['RequestTimeout', 400, 'Unavailable', 'temporary'],
    ['XMinioStorageFull', 507, 'StorageFull', 'permanent'],
  ])('%s (%i) is %s, %s', (code, status, expected, expectedStatus) => {
    const error = refused(code, status);
    expect([error.code, error.status]).toEqual([expected, expectedStatus]);
    expect(error.context.store).toBe(OBJECT.store);
  });

  it('says what was to be done, what the store said, and what a person does about it', () => {
    const error = refused('SignatureDoesNotMatch', 403);
    expect(error.message).toBe(
      'cannot read object a/b in s3://runs/gpt: the secret key does not belong to the access key id, or a proxy changed the request: it & that <x> (SignatureDoesNotMatch)',
    );
    expect(error.context).toMatchObject({ key: 'a/b', storeCode: 'SignatureDoesNotMatch', requestId: 'R1' });
  });

  it('a missing bucket is told as such, not as a missing object', () => {
    expect(refused('NoSuchBucket', 404).message).toBe('s3://runs/gpt names a bucket that does not exist');
    expect(refused('NoSuchBucket', 404).context['bucket']).toBe('missing');
    expect(refused('NoSuchKey', 404).message).toBe('object a/b in s3://runs/gpt does not exist');
  });

  it('an object that was written with another key of the customer, or without one', () => {
    const told = (code: string, status: number, message: string, hasCustomerKey: boolean) => {
      const refusal = refusalOf(
        { status, headers: S3_HEADERS, hasBody: true },
        xml(code).replace('it &amp; that &lt;x&gt;', message),
      );
      return storeError(refusal, 'read', { ...OBJECT, hasCustomerKey });
    };
    const words = 'The object was stored using a form of Server Side Encryption.';
    for (const error of [
      told('InvalidRequest', 400, words, false),
      told('InvalidRequest', 400, 'The encryption parameters are not applicable to this object.', true),
    ]) {
      expect(error.code).toBe('InvalidConfig');
      expect(error.message).toContain('HOLDFAST_S3_CUSTOMER_KEY');
    }
    const inTheClear =
      'Requests specifying Server Side Encryption with Customer provided keys must be made over a secure connection.';
    expect(told('InvalidRequest', 400, inTheClear, true).message).toContain('only over TLS; write https://');
    expect(told('AccessDenied', 403, 'Access Denied.', true).message).toContain('HOLDFAST_S3_CUSTOMER_KEY');
    expect(told('AccessDenied', 403, 'Access Denied.', false).message).not.toContain(
      'HOLDFAST_S3_CUSTOMER_KEY',
    );
  });

  it('an item of a batch delete keeps its code', () => {
    expect(storeError(itemRefusal('AccessDenied', 'locked'), 'delete', OBJECT)).toMatchObject({
      code: 'Denied',
      message: 'cannot delete object a/b in s3://runs/gpt: it needs s3:DeleteObject: locked (AccessDenied)',
    });
  });
});

describe('a missing permission is named', () => {
  const told = (action: string, code = 'AccessDenied', message = 'Access Denied.') => {
    const body = `<Error><Code>${code}</Code><Message>${message}</Message></Error>`;
    const answer = { status: 403, headers: S3_HEADERS, hasBody: true };
    return storeError(refusalOf(answer, body), action, OBJECT).message;
  };

  it.each([
    ['list', 's3:ListBucket'],
    ['create', 's3:PutObject'],
    ['send a part of', 's3:PutObject'],
    ['read', 's3:GetObject'],
    ['look at', 's3:GetObject'],
    ['delete', 's3:DeleteObject'],
    ['list the parts of', 's3:ListMultipartUploadParts'],
    ['abort an upload to', 's3:AbortMultipartUpload'],
  ])('to %s it takes %s', (action, permission) => {
    expect(told(action)).toContain(`it needs ${permission}: Access Denied. (AccessDenied)`);
  });

  it('not where the store names it itself, nor where something else is wrong', () => {
    const named = 'User: me is not authorized to perform: s3:PutObject on resource: x';
    expect(told('create', 'AccessDenied', named)).not.toContain('it needs');
    expect(told('create', 'SignatureDoesNotMatch')).not.toContain('it needs');
    expect(told('do something else to')).not.toContain('it needs');
  });
});

describe('a refusal by its status, where the code says nothing', () => {
  it.each([
    [400, 'Unexpected'],
    [401, 'Denied'],
    [403, 'Denied'],
    [404, 'NotFound'],
    [412, 'AlreadyExists'],
    [418, 'Unexpected'],
    [429, 'Throttled'],
    [500, 'Unavailable'],
    [501, 'Unsupported'],
    [502, 'Unavailable'],
    [504, 'Unavailable'],
    [507, 'StorageFull'],
  ])('%i to HEAD is %s', (status, expected) => {
    const refusal = refusalOf({ status, headers: S3_HEADERS, hasBody: false }, '');
    expect(storeError(refusal, 'look at', OBJECT).code).toBe(expected);
  });

  it('a code that is not in the table is judged by its status too', () => {
    expect(refused('BrandNewRefusal', 403).code).toBe('Denied');
    // It names no argument of ours.
    expect(refused('BrandNewRefusal', 400).code).toBe('Unexpected');
    expect(refused('BrandNewRefusal', 599)).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });

  it('an answer without the form of S3 is no missing object: the endpoint is wrong', () => {
    const refusal = refusalOf({ status: 404, headers: {}, hasBody: true }, '<html>404</html>');
    const error = storeError(refusal, 'list', { store: OBJECT.store });
    expect(error).toMatchObject({ code: 'InvalidConfig', status: 'permanent' });
    expect(error.message).toContain('does not lead to a server that speaks S3');
  });

  it('after such an answer to a create the object may be there all the same', () => {
    const refusal = refusalOf({ status: 200, headers: {}, hasBody: true }, '<html>log in</html>');
    const error = storeError(refusal, 'create', OBJECT);
    expect(error).toMatchObject({ code: 'InvalidConfig', status: 'exhausted' });
  });

  it('what such a server says in a line of plain text is told, a page is not', () => {
    const told = (body: string) =>
      storeError(refusalOf({ status: 400, headers: {}, hasBody: true }, body), 'list', OBJECT).message;
    expect(told('Client sent an HTTP request to an HTTPS server.\n')).toContain(
      'and said: Client sent an HTTP request to an HTTPS server.; check endpoint=',
    );
    expect(told('<html>secrets</html>')).not.toContain('secrets');
    expect(told('x\u001b[2Jy')).not.toContain('and said');
  });

  it('an item of a batch that is refused for an unknown reason had no effect', () => {
    expect(storeError(itemRefusal('BrandNewRefusal', 'no'), 'delete', OBJECT)).toMatchObject({
      code: 'Unexpected',
      status: 'permanent',
    });
  });

  it('a success that is not understood may have had its effect, also where it is of no S3 at all', () => {
    const shown = storeError(foreignSuccess({ status: 200, headers: S3_HEADERS }), 'create', OBJECT);
    expect(JSON.stringify([shown, shown.cause])).not.toContain(Object.values(S3_HEADERS)[0]);
    expect(shown).toMatchObject({ code: 'Unavailable', status: 'temporary' });
    expect(shown.message).toContain('says success, but not in the form of this store (HTTP 200)');
    expect(storeError(foreignSuccess({ status: 200, headers: {} }), 'create', OBJECT)).toMatchObject({
      code: 'InvalidConfig',
      status: 'exhausted',
    });
  });

  it.each([
    [408, 'Unavailable', 'HTTP 408'],
    [413, 'InvalidConfig', 'a proxy in front of the store rejects requests of this size (HTTP 413)'],
    [429, 'Throttled', 'HTTP 429'],
  ])('%i is of a proxy, and %s', (status, expected, words) => {
    const error = storeError(
      refusalOf({ status, headers: {}, hasBody: true }, '<html></html>'),
      'list',
      OBJECT,
    );
    expect(error.code).toBe(expected);
    expect(error.message).toContain(words);
  });

  it('a proxy that cannot reach the store is temporary, whatever its page looks like', () => {
    const refusal = refusalOf({ status: 502, headers: {}, hasBody: true }, '<html>Bad Gateway</html>');
    expect(storeError(refusal, 'list', OBJECT)).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });
});

describe('what the answer tells beside', () => {
  it('the region: from the header, else from the body', () => {
    const body = xml('AuthorizationHeaderMalformed', '<Region>eu-west-1</Region>');
    expect(refusalOf({ status: 400, headers: {}, hasBody: true }, body).region).toBe('eu-west-1');
    const headers = { 'x-amz-bucket-region': 'us-west-2' };
    expect(refusalOf({ status: 301, headers, hasBody: false }, '').region).toBe('us-west-2');
    expect(
      refusalOf({ status: 400, headers: {}, hasBody: true }, xml('InvalidRequest')).region,
    ).toBeUndefined();
  });

  it('how long to wait', () => {
    const headers = { ...S3_HEADERS, 'retry-after': '3' };
    expect(refusalOf({ status: 503, headers, hasBody: true }, xml('SlowDown')).retryAfterMs).toBe(3000);
    expect(refused('SlowDown', 503, headers).retryAfterMs).toBe(3000);
    const date = { ...S3_HEADERS, 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' };
    expect(
      refusalOf({ status: 503, headers: date, hasBody: true }, xml('SlowDown')).retryAfterMs,
    ).toBeUndefined();
  });
});

describe('a failure without an answer', () => {
  it('is told as of every store', () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    expect(storeError(cause, 'list', OBJECT)).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });
});
