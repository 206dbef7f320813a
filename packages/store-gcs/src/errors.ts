import {
  brokenAnswer,
  CredentialsError,
  codeOfStatus,
  credentialsFailure,
  foreignError,
  HttpRefusal,
  objectError,
  plainText,
  type RefusedAnswer,
  refusalError,
  requestError,
  type StoreSubject,
  type TransportAnswer,
  type TransportRequest,
  textOf,
} from '@holdfast/cloud-http';
import { CheckpointError, type ErrorCode } from '@holdfast/core/contract';

/** Subject of a call, for its message. */
export interface GcsSubject extends StoreSubject {
  /** Anonymous: no token is sent. */
  readonly isAnonymous?: boolean | undefined;
}

/** Parses the JSON or XML of an error; without either, the status decides. */
export function refusalOf(answer: RefusedAnswer, body: string): HttpRefusal {
  const requestId = answer.headers['x-guploader-uploadid'];
  return new HttpRefusal(answer, {
    ...(jsonError(body, answer.status) ?? xmlError(body) ?? textError(body, isOfGoogle(answer))),
    requestId,
  });
}

interface ToldError {
  readonly code: string;
  readonly message: string;
}

/** Google's answer to media requests: the message of the JSON error as plain text. */
function textError(body: string, isGoogles: boolean): ToldError {
  const text = body.trim();
  return { code: '', message: isGoogles && !text.startsWith('<') ? text.slice(0, 500) : plainText(body) };
}

function xmlError(body: string): ToldError | undefined {
  if (!body.includes('<Error>')) return undefined;
  const element = (name: string) => textOf(body, name) ?? '';
  const details = element('Details');
  const message = element('Message');
  return { code: element('Code'), message: details === '' ? message : `${message} ${details}` };
}

/**
 * Reasons in the JSON API for a status. Servers that speak it, such as Google's own test bench, may
 * omit the reason.
 */
const REASON_OF_STATUS: Readonly<Record<number, string>> = {
  400: 'invalid',
  401: 'authError',
  403: 'forbidden',
  404: 'notFound',
  409: 'conflict',
  412: 'conditionNotMet',
  429: 'rateLimitExceeded',
};

function jsonError(body: string, status: number): ToldError | undefined {
  if (!/^\s*\{/.test(body)) return undefined;
  try {
    const { error } = JSON.parse(body) as { error?: Record<string, unknown> };
    if (typeof error !== 'object' || error === null) return undefined;
    const [first] = Array.isArray(error.errors) ? (error.errors as Record<string, unknown>[]) : [];
    const code = first?.reason ?? error.status ?? (error.code === status ? reasonOf(status) : '');
    return {
      code: typeof code === 'string' ? code : '',
      message: typeof error.message === 'string' ? error.message : '',
    };
  } catch {
    return undefined; // Not JSON: the status decides.
  }
}

function reasonOf(status: number): string {
  return REASON_OF_STATUS[status] ?? (status >= 500 ? 'backendError' : '');
}

/**
 * The answer to a completion begins before the store knows the result, so a 200 may contain an
 * error. Reads are not examined: an object may contain any bytes.
 */
export function isErrorOfSuccess({ method }: TransportRequest, { status, body }: TransportAnswer): boolean {
  return (
    method !== 'GET' &&
    status === 200 &&
    body.byteLength > 0 &&
    body.byteLength < 64 * 1024 &&
    /^\s*((<\?xml[^>]*>\s*)?<Error>|\{\s*"error"\s*:)/.test(new TextDecoder().decode(body))
  );
}

/** The answer is of Google itself, whatever its form. */
export function isOfGoogle({ headers }: Pick<TransportAnswer, 'headers'>): boolean {
  return headers['x-guploader-uploadid'] !== undefined;
}

/** A success in a form that GCS never uses: of another server, or changed on its way. */
export function foreignSuccess(answer: TransportAnswer): Error {
  if (isOfGoogle(answer)) return brokenAnswer('it is in another form');
  const { status, headers } = answer;
  return new HttpRefusal({ status, headers, hasBody: true }, { code: '', message: '', requestId: undefined });
}

/**
 * Reasons of the JSON API and codes of the XML API. Most differ only in their first letter: such a
 * row has the one of the JSON API. For any other code the HTTP status decides.
 */
const BY_CODE: Readonly<Record<string, ErrorCode>> = {
  notFound: 'NotFound',
  NoSuchKey: 'NotFound',
  NoSuchBucket: 'NotFound',
  NoSuchUpload: 'NotFound',

  conditionNotMet: 'AlreadyExists',
  PreconditionFailed: 'AlreadyExists',

  AccessDenied: 'Denied',
  accessNotConfigured: 'Denied',
  AccountProblem: 'Denied',
  accountDisabled: 'Denied',
  authError: 'Denied',
  AuthenticationRequired: 'Denied',
  AuthenticationRequiredRequesterPays: 'Denied',
  countryBlocked: 'Denied',
  ExpiredToken: 'Denied',
  forbidden: 'Denied',
  insufficientPermissions: 'Denied',
  InvalidSecurity: 'Denied',
  lockedDomainExpired: 'Denied',
  objectUnderActiveHold: 'Denied',
  // Its status, 412, has another meaning.
  orgPolicyConstraintFailed: 'Denied',
  PERMISSION_DENIED: 'Denied',
  retentionPolicyNotMet: 'Denied',
  securityPolicyViolated: 'Denied',
  UNAUTHENTICATED: 'Denied',
  userProjectAccessDenied: 'Denied',
  userProjectAccountProblem: 'Denied',

  cloudKmsBadKey: 'InvalidConfig',
  cloudKmsDecryptionKeyNotFound: 'InvalidConfig',
  cloudKmsDisabledKey: 'InvalidConfig',
  cloudKmsEncryptionKeyNotFound: 'InvalidConfig',
  cloudKmsKeyLocationNotAllowed: 'InvalidConfig',
  customerEncryptionAlgorithmIsInvalid: 'InvalidConfig',
  customerEncryptionKeyFormatIsInvalid: 'InvalidConfig',
  customerEncryptionKeyIsIncorrect: 'InvalidConfig',
  customerEncryptionKeySha256IsInvalid: 'InvalidConfig',
  InvalidBucketName: 'InvalidConfig',
  InvalidStorageClass: 'InvalidConfig',
  resourceIsEncryptedWithCustomerEncryptionKey: 'InvalidConfig',
  resourceNotEncryptedWithCustomerEncryptionKey: 'InvalidConfig',
  sslRequired: 'InvalidConfig',
  userProjectInconsistent: 'InvalidConfig',
  userProjectInvalid: 'InvalidConfig',
  userProjectMissing: 'InvalidConfig',

  badRequest: 'InvalidArgument',
  EntityTooLarge: 'InvalidArgument',
  EntityTooSmall: 'InvalidArgument',
  invalid: 'InvalidArgument',
  InvalidArgument: 'InvalidArgument',
  invalidParameter: 'InvalidArgument',
  InvalidPart: 'InvalidArgument',
  InvalidPartOrder: 'InvalidArgument',
  KeyTooLong: 'InvalidArgument',
  parseError: 'InvalidArgument',
  uploadTooLarge: 'InvalidArgument',

  BadDigest: 'Corrupt',
  CrcMismatch: 'Corrupt',
  InvalidDigest: 'Corrupt',

  methodNotAllowed: 'Unsupported',
  NotImplemented: 'Unsupported',

  // Its status is 403, but the cause is a rate limit, of requests or of bandwidth.
  quotaExceeded: 'Throttled',
  rateLimitExceeded: 'Throttled',
  RequestRateTooHigh: 'Throttled',
  RESOURCE_EXHAUSTED: 'Throttled',
  SlowDown: 'Throttled',
  TooManyRequests: 'Throttled',
  userRateLimitExceeded: 'Throttled',

  // Concurrent writes, or an internal error: it is unknown whether our write took effect.
  backendError: 'Unavailable',
  conflict: 'Unavailable',
  DEADLINE_EXCEEDED: 'Unavailable',
  gatewayTimeout: 'Unavailable',
  internalError: 'Unavailable',
  OperationAborted: 'Unavailable',
  RequestTimeout: 'Unavailable',
  ServiceUnavailable: 'Unavailable',
  UNAVAILABLE: 'Unavailable',
  uploadBrokenConnection: 'Unavailable',
};

const PAYS = 'its bucket bills the requester; name the project that pays with userProject=';
const KEEPS = "its bucket's retention policy keeps it until its period is over";
const HELD = 'it is under a hold; release that to delete it';
const OTHER_KEY =
  'it was written with a HOLDFAST_GCS_CUSTOMER_KEY that differs from the one set now, or only one of the two is set';

/** Explanations in addition to the store's own message. */
const HINTS: Readonly<Record<string, string>> = {
  accessNotConfigured: 'the API of Cloud Storage is not enabled in the project',
  authError: 'the store does not accept the token; get new credentials',
  AuthenticationRequired: 'the store does not accept the token; get new credentials',
  UNAUTHENTICATED: 'the store does not accept the token; get new credentials',
  customerEncryptionKeyIsIncorrect: OTHER_KEY,
  resourceIsEncryptedWithCustomerEncryptionKey: OTHER_KEY,
  resourceNotEncryptedWithCustomerEncryptionKey: OTHER_KEY,
  objectUnderActiveHold: HELD,
  retentionPolicyNotMet: KEEPS,
  userProjectMissing: PAYS,
  // Requester-pays buckets used this reason before they had their own.
  required: 'the store requires credentials, or a missing parameter',
};

const NO_CREDENTIALS = 'the store requires credentials; write auth=true in the URI to use them';

/**
 * The JSON API has one reason for everything that is missing. For these actions it is the object.
 * Other actions need only the bucket.
 */
const NEEDS_OBJECT: readonly string[] = ['read', 'look at', 'delete'];
const NEEDS_BUCKET: readonly string[] = ['create', 'list', 'begin an upload to', 'inspect'];

/**
 * Wraps a failed call in a `CheckpointError`. `action`: "read", "create". The message names the
 * subject after it.
 */
export function storeError(error: unknown, action: string, subject: GcsSubject): CheckpointError {
  if (error instanceof HttpRefusal) return judged(error, action, subject);
  if (error instanceof CredentialsError) return credentialsFailure(error, action, subject);
  return requestError(error, action, subject);
}

function judged(refusal: HttpRefusal, action: string, subject: GcsSubject): CheckpointError {
  const known = codeOf(refusal);
  if (isMissingBucket(refusal) || (refusal.code === 'notFound' && NEEDS_BUCKET.includes(action))) {
    const context = { store: subject.store, bucket: 'missing' };
    const what = `${subject.store} names a bucket that does not exist`;
    return new CheckpointError('NotFound', what, { context, cause: refusal });
  }
  if (refusal.isForeign) return foreignError(refusal, { action, subject }, 'GCS');
  if (known === 'NotFound' && NEEDS_OBJECT.includes(action))
    return objectError(known, subject, 'does not exist', refusal);
  return refusalError(refusal, { action, subject, code: known, hint: hintOf(refusal, known, subject) });
}

function rowOf<T>(table: Readonly<Record<string, T>>, code: string): T | undefined {
  return table[code] ?? table[code.charAt(0).toLowerCase() + code.slice(1)];
}

function codeOf({ code, status, message }: HttpRefusal): ErrorCode {
  const known = rowOf(BY_CODE, code) ?? codeOfStatus(status);
  // A checksum mismatch has no reason of its own.
  return known === 'InvalidArgument' && /doesn't match calculated/i.test(message) ? 'Corrupt' : known;
}

/** Tells whether the store reports that the bucket is missing. */
export function isMissingBucket({ code, message, isForeign }: HttpRefusal): boolean {
  return !isForeign && (code === 'NoSuchBucket' || /bucket does not exist/i.test(message));
}

function hintOf({ code, status }: HttpRefusal, known: ErrorCode, subject: GcsSubject): string | undefined {
  if (status === 401 && known === 'Denied' && subject.isAnonymous === true) return NO_CREDENTIALS;
  return rowOf(HINTS, code);
}
