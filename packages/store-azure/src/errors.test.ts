import { CredentialsError } from '@holdfast/cloud-http';
import { describe, expect, it } from 'vitest';
import { parseAzureConfig } from './config.ts';
import { foreignSuccess, refusalOf, storeError } from './errors.ts';

const SAS = 'sv=2024-11-04&st=2026-01-01T00:00:00Z&se=2026-06-01T00:00:00Z&sp=r&sig=canary';
const KEY = Buffer.from('a key of an account').toString('base64');
const ENVIRONMENTS = {
  key: { AZURE_STORAGE_KEY: KEY },
  sas: { AZURE_STORAGE_SAS_TOKEN: SAS },
  identity: {},
} as const;

function subject(kind: keyof typeof ENVIRONMENTS = 'key', settings = '') {
  const config = parseAzureConfig(`az://acct/runs/gpt${settings}`, ENVIRONMENTS[kind]);
  return { store: config.uri, key: 'a/b', config };
}

function xml(code: string, extra = ''): string {
  return `\ufeff<?xml version="1.0" encoding="utf-8"?><Error><Code>${code}</Code><Message>it &amp; that.\nRequestId:R1\nTime:now</Message>${extra}</Error>`;
}

const HEADERS = { 'x-ms-request-id': 'R1', date: 'Sat, 21 Nov 2026 10:00:00 GMT' };

function refused(
  code: string,
  status: number,
  { action = 'read', kind = 'key' as keyof typeof ENVIRONMENTS, extra = '' } = {},
) {
  const refusal = refusalOf({ status, headers: HEADERS, hasBody: true }, xml(code, extra));
  return storeError(refusal, action, subject(kind));
}

describe('a refusal by its code', () => {
  it.each([
    ['BlobNotFound', 404, 'NotFound', 'permanent'],
    ['ResourceNotFound', 404, 'NotFound', 'permanent'],
    ['ContainerNotFound', 404, 'NotFound', 'permanent'],
    ['ContainerBeingDeleted', 409, 'NotFound', 'permanent'],
    ['FilesystemNotFound', 404, 'NotFound', 'permanent'],
    ['FilesystemBeingDeleted', 409, 'NotFound', 'permanent'],
    ['PathNotFound', 404, 'NotFound', 'permanent'],
    ['BlobAlreadyExists', 409, 'AlreadyExists', 'permanent'],
    ['PathAlreadyExists', 409, 'AlreadyExists', 'permanent'],
    ['ConditionNotMet', 412, 'AlreadyExists', 'permanent'],
    ['TargetConditionNotMet', 412, 'AlreadyExists', 'permanent'],
    ['AccountIsDisabled', 403, 'Denied', 'permanent'],
    ['AuthenticationFailed', 403, 'Denied', 'permanent'],
    ['AuthorizationFailure', 403, 'Denied', 'permanent'],
    ['AuthorizationPermissionMismatch', 403, 'Denied', 'permanent'],
    ['AuthorizationProtocolMismatch', 403, 'Denied', 'permanent'],
    ['AuthorizationResourceTypeMismatch', 403, 'Denied', 'permanent'],
    ['AuthorizationServiceMismatch', 403, 'Denied', 'permanent'],
    ['AuthorizationSourceIPMismatch', 403, 'Denied', 'permanent'],
    ['BlobImmutableDueToPolicy', 409, 'Denied', 'permanent'],
    ['InsufficientAccountPermissions', 403, 'Denied', 'permanent'],
    ['InvalidAuthenticationInfo', 401, 'Denied', 'permanent'],
    ['InvalidTokenAudience', 401, 'Denied', 'permanent'],
    ['KeyBasedAuthenticationNotPermitted', 403, 'Denied', 'permanent'],
    ['LeaseAlreadyPresent', 409, 'Denied', 'permanent'],
    ['LeaseIdMissing', 412, 'Denied', 'permanent'],
    ['NoAuthenticationInformation', 401, 'Denied', 'permanent'],
    ['PublicAccessNotPermitted', 409, 'Denied', 'permanent'],
    ['SnapshotsPresent', 409, 'Denied', 'permanent'],
    ['UnauthorizedBlobOverwrite', 403, 'Denied', 'permanent'],
    ['BlobCustomerSpecifiedEncryptionMismatch', 409, 'InvalidConfig', 'permanent'],
    ['BlobDoesNotUseCustomerSpecifiedEncryption', 409, 'InvalidConfig', 'permanent'],
    ['BlobUsesCustomerSpecifiedEncryption', 409, 'InvalidConfig', 'permanent'],
    ['EncryptionScopeNotFound', 404, 'InvalidConfig', 'permanent'],
    ['EncryptionScopeDisabled', 409, 'InvalidConfig', 'permanent'],
    ['EncryptionScopeForbidden', 409, 'InvalidConfig', 'permanent'],
    ['InvalidResourceName', 400, 'InvalidConfig', 'permanent'],
    ['InvalidUri', 400, 'InvalidConfig', 'permanent'],
    ['AccessTierNotSupportedForAccountType', 400, 'InvalidConfig', 'permanent'],
    ['AccountRequiresHttps', 400, 'InvalidConfig', 'permanent'],
    ['BlockCountExceedsLimit', 409, 'InvalidArgument', 'permanent'],
    ['InvalidBlobOrBlock', 400, 'InvalidArgument', 'permanent'],
    ['InvalidBlockId', 400, 'InvalidArgument', 'permanent'],
    ['OutOfRangeInput', 400, 'InvalidArgument', 'permanent'],
    ['RequestBodyTooLarge', 413, 'InvalidArgument', 'permanent'],
    ['Crc64Mismatch', 400, 'Corrupt', 'permanent'],
    ['Md5Mismatch', 400, 'Corrupt', 'permanent'],
    ['BlobArchived', 409, 'Unsupported', 'permanent'],
    ['BlobBeingRehydrated', 409, 'Unsupported', 'permanent'],
    ['FeatureVersionMismatch', 409, 'Unsupported', 'permanent'],
    ['InvalidBlobType', 409, 'Unsupported', 'permanent'],
    ['APINotImplemented', 501, 'Unsupported', 'permanent'],
    ['ServerBusy', 503, 'Throttled', 'temporary'],
    ['TooManyRequests', 429, 'Throttled', 'temporary'],
    ['EgressIsOverAccountLimit', 503, 'Throttled', 'temporary'],
    ['IngressIsOverAccountLimit', 503, 'Throttled', 'temporary'],
    ['OperationsPerSecondIsOverAccountLimit', 503, 'Throttled', 'temporary'],
    ['AccountBeingCreated', 403, 'Unavailable', 'temporary'],
    ['InternalError', 500, 'Unavailable', 'temporary'],
    ['OperationTimedOut', 500, 'Unavailable', 'temporary'],
    ['PendingCopyOperation', 409, 'Unavailable', 'temporary'],
    ['AccountQuotaExceeded', 409, 'StorageFull', 'permanent'],
  ])('%s (%i) is %s, %s', (code, status, expected, expectedStatus) => {
    const error = refused(code, status);
    expect([error.code, error.status]).toEqual([expected, expectedStatus]);
    expect(error.context.store).toBe('az://acct/runs/gpt');
  });

  it('says what was to be done, what the store said, and what a person does about it', () => {
    const error = refused('KeyBasedAuthenticationNotPermitted', 403);
    expect(error.message).toBe(
      'cannot read object a/b in az://acct/runs/gpt: the account accepts no keys, and no SAS signed by one; write auth=identity: it & that. (KeyBasedAuthenticationNotPermitted)',
    );
    expect(error.context).toMatchObject({ key: 'a/b', httpStatus: 403, requestId: 'R1' });
  });

  it('a missing container is told as such, not as a missing object', () => {
    const error = refused('ContainerNotFound', 404);
    expect(error.message).toBe('az://acct/runs/gpt names a container that does not exist');
    expect(error.context['bucket']).toBe('missing');
    expect(refused('ContainerBeingDeleted', 409).message).toContain('is being deleted');
    expect(refused('BlobNotFound', 404).message).toBe('object a/b in az://acct/runs/gpt does not exist');
  });

  it('what is missing without an object being asked for is the account or the container', () => {
    const { key: _, ...store } = subject();
    const refusal = refusalOf({ status: 404, headers: HEADERS, hasBody: true }, xml('ResourceNotFound'));
    const error = storeError(refusal, 'list', store);
    expect(error.message).toBe('az://acct/runs/gpt names an account or container that does not exist');
    expect(error.context['bucket']).toBe('missing');
  });

  it('create: what only a blob under the same name brings about is AlreadyExists', () => {
    for (const code of ['BlobImmutableDueToPolicy', 'UnauthorizedBlobOverwrite'])
      for (const action of ['create', 'copy to']) {
        expect(refused(code, 409, { action }).code).toBe('AlreadyExists');
        expect(refused(code, 409, { action: 'delete' }).code).toBe('Denied');
      }
  });

  it('Azurite has a word of its own for a wrong MD5', () => {
    const body = xml('InvalidOperation').replace('it &amp; that.', "Provided contentMD5 doesn't match.");
    const refusal = refusalOf({ status: 400, headers: HEADERS, hasBody: true }, body);
    expect(storeError(refusal, 'create', subject()).code).toBe('Corrupt');
    expect(refused('InvalidOperation', 400).code).toBe('Unexpected');
  });

  it('the code of the header counts, where there is no body', () => {
    const headers = { ...HEADERS, 'x-ms-error-code': 'ContainerNotFound' };
    const refusal = refusalOf({ status: 404, headers, hasBody: false }, '');
    expect(storeError(refusal, 'look at', subject()).message).toContain('a container that does not exist');
  });
});

describe('a refusal of credentials', () => {
  it('never repeats what was signed, or a signature', () => {
    const detail =
      "<AuthenticationErrorDetail>The MAC signature found in the HTTP request 'canary=' is not the same as any computed signature.</AuthenticationErrorDetail>";
    for (const kind of ['key', 'sas', 'identity'] as const) {
      const error = refused('AuthenticationFailed', 403, { kind, extra: detail });
      expect(JSON.stringify([error.message, error.context, String(error.cause)])).not.toContain('canary');
    }
  });

  it('Azurite has a word of its own for credentials that it does not know', () => {
    const words = 'Server failed to authenticate the request. Make sure the value is right.';
    const body = xml('AuthorizationFailure').replace('it &amp; that.', words);
    const refusal = refusalOf({ status: 403, headers: HEADERS, hasBody: true }, body);
    expect(storeError(refusal, 'list', subject()).message).toContain(
      'the key does not belong to the account',
    );
  });

  it('a key: key, clock or proxy', () => {
    expect(refused('AuthenticationFailed', 403).message).toContain(
      'the key does not belong to the account "acct", the clock of this machine is wrong',
    );
  });

  it('a SAS: expired, not valid yet, or for something else, by the clock of the store', () => {
    const at = (date: string) =>
      storeError(
        refusalOf({ status: 403, headers: { ...HEADERS, date }, hasBody: true }, xml('AuthenticationFailed')),
        'list',
        subject('sas'),
      ).message;
    expect(at('Sat, 21 Nov 2026 10:00:00 GMT')).toContain(
      'the SAS has expired: it was valid until 2026-06-01T00:00:00Z',
    );
    expect(at('Wed, 31 Dec 2025 10:00:00 GMT')).toContain('the SAS is not valid before 2026-01-01T00:00:00Z');
    expect(at('Fri, 01 May 2026 10:00:00 GMT')).toContain('not for this account and container');
  });

  it.each([
    ['list', 'l (list)', 'blobs/read'],
    ['read', 'r (read)', 'blobs/read'],
    ['look at', 'r (read)', 'blobs/read'],
    ['list the parts of', 'r (read)', 'blobs/read'],
    ['resume an upload to', 'r (read)', 'blobs/read'],
    ['create', 'c (create)', 'blobs/write'],
    ['copy to', 'c (create)', 'blobs/write'],
    ['delete', 'd (delete)', 'blobs/delete'],
    ['send a part of', 'w (write)', 'blobs/write'],
    ['complete', 'w (write)', 'blobs/write'],
  ])('that may not %s: says that it takes %s, or %s', (action, letter, roleAction) => {
    const message = (kind: 'sas' | 'identity') =>
      refused('AuthorizationPermissionMismatch', 403, { action, kind }).message;
    expect(message('sas')).toContain(`the SAS lacks ${letter}`);
    expect(message('identity')).toContain(`no role of the credentials has ${roleAction}`);
  });

  it('AuthorizationFailure may be the firewall, and with a key it is', () => {
    expect(refused('AuthorizationFailure', 403, { kind: 'identity' }).message).toContain(
      'or the firewall of the account refuses this machine',
    );
    expect(refused('AuthorizationFailure', 403).message).toContain(
      'the firewall of the account refuses this machine',
    );
  });

  it.each([
    [false, 'Denied'],
    [true, 'Unavailable'],
  ])('that could not be had, for now: %s, is %s', (isTemporary, expected) => {
    const cause = new CredentialsError(
      isTemporary ? 'Unavailable' : 'Denied',
      'no credentials were found; set some',
    );
    const error = storeError(cause, 'read', subject());
    expect([error.code, error.message]).toEqual([
      expected,
      'cannot read object a/b in az://acct/runs/gpt: no credentials were found; set some',
    ]);
  });
});

describe('a refusal by its status, where the code says nothing', () => {
  it.each([
    [401, 'Denied'],
    [403, 'Denied'],
    [404, 'NotFound'],
    [409, 'Unavailable'],
    [412, 'AlreadyExists'],
    [418, 'Unexpected'],
    [429, 'Throttled'],
    [500, 'Unavailable'],
    [501, 'Unsupported'],
    [503, 'Unavailable'],
    [507, 'StorageFull'],
  ])('%i to HEAD is %s', (status, expected) => {
    const refusal = refusalOf({ status, headers: HEADERS, hasBody: false }, '');
    expect(storeError(refusal, 'look at', subject()).code).toBe(expected);
  });

  it('a code that is not in the table is judged by its status too', () => {
    expect(refused('BrandNewRefusal', 403).code).toBe('Denied');
    expect(refused('BrandNewRefusal', 409)).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });
});

describe('another server has answered', () => {
  it('a page is no refusal of Azure', () => {
    const refusal = refusalOf({ status: 404, headers: {}, hasBody: true }, '<html>not here</html>');
    const error = storeError(refusal, 'list', subject());
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toContain('does not lead to a server that speaks Azure Blob Storage');
  });

  it('a success in another form does not count as one', () => {
    const error = storeError(foreignSuccess({ status: 200, headers: HEADERS }), 'list', subject());
    expect(error).toMatchObject({ code: 'InvalidConfig', status: 'permanent' });
    expect(error.message).toContain('HTTP 200 in another form');
  });

  it('a new blob may be there all the same', () => {
    const error = storeError(foreignSuccess({ status: 200, headers: HEADERS }), 'create', subject());
    expect(error).toMatchObject({ code: 'InvalidConfig', status: 'exhausted' });
  });

  it('a name that does not exist may be a wrong account', () => {
    const cause = Object.assign(new Error('getaddrinfo ENOTFOUND acct.blob.core.windows.net'), {
      code: 'ENOTFOUND',
    });
    expect(storeError(cause, 'list', subject())).toMatchObject({
      code: 'Unavailable',
      message: expect.stringContaining('is there an account "acct"?'),
    });
    const elsewhere = subject('key', '?endpoint=https://near.example');
    expect(storeError(cause, 'list', elsewhere).message).toContain('check endpoint=');
  });
});
