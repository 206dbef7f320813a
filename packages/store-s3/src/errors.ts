import {
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
export interface S3Subject extends StoreSubject {
  /** True if requests carry a customer-provided key. */
  readonly hasCustomerKey?: boolean | undefined;
}

export class S3Refusal extends HttpRefusal {
  /** Region of the bucket, if the answer contains it. */
  readonly region: string | undefined;

  constructor(answer: RefusedAnswer, code: string, message: string, region?: string) {
    super(answer, { code, message, requestId: answer.headers['x-amz-request-id'] });
    this.name = 'S3Refusal';
    this.region = answer.headers['x-amz-bucket-region'] ?? region;
  }
}

/** Parses the XML of an error; without XML the status decides. */
export function refusalOf(answer: RefusedAnswer, body: string): S3Refusal {
  const element = (name: string) => textOf(body, name) ?? '';
  const isError = body.includes('<Error>');
  const region = isError ? element('Region') : '';
  return new S3Refusal(
    answer,
    isError ? element('Code') : '',
    isError ? element('Message') : plainText(body),
    region === '' ? undefined : region,
  );
}

/**
 * S3 begins the answer to a completion before it knows the result, and sends blanks meanwhile. So a
 * 200 may contain an error. Reads are not examined: an object may contain any bytes.
 */
export function isErrorOfSuccess({ method }: TransportRequest, { status, body }: TransportAnswer): boolean {
  return (
    method !== 'GET' &&
    status === 200 &&
    body.byteLength > 0 && // Empty after each part and object.
    body.byteLength < 64 * 1024 &&
    /^\s*(<\?xml[^>]*>\s*)?<Error>/.test(new TextDecoder().decode(body))
  );
}

/** A success in a form that S3 never uses: another server answered. */
export function foreignSuccess({ status, headers }: Pick<RefusedAnswer, 'status' | 'headers'>): S3Refusal {
  return new S3Refusal({ status, headers, hasBody: true }, '', '');
}

/** One rejected item of a batch that succeeded as a whole. */
export function itemRefusal(code: string, message: string): S3Refusal {
  return new S3Refusal({ status: 200, headers: {}, hasBody: false }, code, message);
}

/** Codes of S3 and MinIO. For any other code the HTTP status decides. */
const BY_CODE: Readonly<Record<string, ErrorCode>> = {
  NoSuchKey: 'NotFound',
  NoSuchBucket: 'NotFound',
  NoSuchUpload: 'NotFound',
  NoSuchVersion: 'NotFound',
  NotFound: 'NotFound',

  PreconditionFailed: 'AlreadyExists',
  ObjectAlreadyExists: 'AlreadyExists',

  AccessDenied: 'Denied',
  AccountProblem: 'Denied',
  AllAccessDisabled: 'Denied',
  ExpiredToken: 'Denied',
  Forbidden: 'Denied',
  InvalidAccessKeyId: 'Denied',
  InvalidPayer: 'Denied',
  InvalidSecurity: 'Denied',
  InvalidToken: 'Denied',
  InvalidTokenId: 'Denied',
  NotSignedUp: 'Denied',
  ObjectLocked: 'Denied',
  RequestTimeTooSkewed: 'Denied',
  SignatureDoesNotMatch: 'Denied',
  TokenRefreshRequired: 'Denied',
  XMinioInvalidObjectName: 'InvalidArgument',

  AuthorizationHeaderMalformed: 'InvalidConfig',
  IllegalLocationConstraintException: 'InvalidConfig',
  InvalidBucketName: 'InvalidConfig',
  InvalidStorageClass: 'InvalidConfig',
  PermanentRedirect: 'InvalidConfig',
  InvalidEncryptionAlgorithmError: 'InvalidConfig',
  'KMS.NotFoundException': 'InvalidConfig',
  'KMS.DisabledException': 'InvalidConfig',

  EntityTooLarge: 'InvalidArgument',
  EntityTooSmall: 'InvalidArgument',
  InvalidArgument: 'InvalidArgument',
  InvalidPart: 'InvalidArgument',
  InvalidPartOrder: 'InvalidArgument',
  InvalidRequest: 'InvalidArgument',
  KeyTooLongError: 'InvalidArgument',

  BadDigest: 'Corrupt',
  InvalidDigest: 'Corrupt',
  XAmzContentChecksumMismatch: 'Corrupt',
  XAmzContentSHA256Mismatch: 'Corrupt',

  InvalidObjectState: 'Unsupported',
  MethodNotAllowed: 'Unsupported',
  NotImplemented: 'Unsupported',

  BandwidthLimitExceeded: 'Throttled',
  EC2ThrottledException: 'Throttled',
  ProvisionedThroughputExceededException: 'Throttled',
  RequestLimitExceeded: 'Throttled',
  SlowDown: 'Throttled',
  SlowDownRead: 'Throttled',
  SlowDownWrite: 'Throttled',
  Throttling: 'Throttled',
  ThrottlingException: 'Throttled',
  TooManyRequests: 'Throttled',

  // Concurrent writes, or an internal error: it is unknown whether our write took effect.
  ConditionalRequestConflict: 'Unavailable',
  OperationAborted: 'Unavailable',
  InternalError: 'Unavailable',
  RequestTimeout: 'Unavailable',
  RequestTimeoutException: 'Unavailable',
  ServerNotInitialized: 'Unavailable',
  ServiceUnavailable: 'Unavailable',
  TemporaryRedirect: 'Unavailable',

  QuotaExceeded: 'StorageFull',
  StorageFull: 'StorageFull',
  XMinioAdminBucketQuotaExceeded: 'StorageFull',
  XMinioStorageFull: 'StorageFull',
};

/** Explanations in addition to the store's own message. */
const HINTS: Readonly<Record<string, string>> = {
  ExpiredToken: 'the session token has expired; get new credentials',
  InvalidAccessKeyId: 'the access key id is not known to this store',
  SignatureDoesNotMatch:
    'the secret key does not belong to the access key id, or a proxy changed the request',
  PermanentRedirect: 'the bucket is in another region; set region= in the URI',
  AuthorizationHeaderMalformed: 'the bucket is in another region; set region= in the URI',
  RequestTimeTooSkewed: 'the clock of this machine is wrong; set it',
};

/** Stores have no specific code for a wrong customer-provided key. */
const OF_CUSTOMER_KEY: readonly (readonly [RegExp, string])[] = [
  [/secure connection/i, 'HOLDFAST_S3_CUSTOMER_KEY is accepted only over TLS; write https:// in endpoint='],
  [
    /server side encryption|encryption parameters/i,
    'it was written with a HOLDFAST_S3_CUSTOMER_KEY that differs from the one set now, or only one of the two is set',
  ],
];

function customerKeyHint(message: string): string | undefined {
  return OF_CUSTOMER_KEY.find(([words]) => words.test(message))?.[1];
}

/** Permissions that a call needs, by its action. */
const PERMISSIONS: Readonly<Record<string, string>> = {
  list: 's3:ListBucket',
  create: 's3:PutObject',
  'begin an upload to': 's3:PutObject',
  'send a part of': 's3:PutObject',
  complete: 's3:PutObject',
  read: 's3:GetObject',
  'look at': 's3:GetObject',
  delete: 's3:DeleteObject',
  'delete from': 's3:DeleteObject',
  'list the parts of': 's3:ListMultipartUploadParts',
  'resume an upload to': 's3:ListMultipartUploadParts',
  'abort an upload to': 's3:AbortMultipartUpload',
};

/** S3 itself often names the permission. Most other stores say only "Access Denied". */
function permissionHint({ code, status, message }: S3Refusal, action: string): string | undefined {
  const isRefused = code === 'AccessDenied' || (code === '' && status === 403);
  const permission = PERMISSIONS[action];
  return isRefused && permission !== undefined && !message.includes('s3:')
    ? `it needs ${permission}`
    : undefined;
}

const OR_CUSTOMER_KEY = 'not permitted, or it was written with another HOLDFAST_S3_CUSTOMER_KEY';

/**
 * Wraps a failed call in a `CheckpointError`. `action`: "read", "create". The message names the
 * subject after it.
 */
export function storeError(error: unknown, action: string, subject: S3Subject): CheckpointError {
  if (error instanceof S3Refusal) return s3Error(error, action, subject);
  if (error instanceof CredentialsError) return credentialsFailure(error, action, subject);
  return requestError(error, action, subject);
}

function s3Error(refusal: S3Refusal, action: string, subject: S3Subject): CheckpointError {
  const { status, code } = refusal;
  if (code === 'NoSuchBucket') {
    const context = { store: subject.store, bucket: 'missing' };
    const what = `${subject.store} names a bucket that does not exist`;
    return new CheckpointError('NotFound', what, { context, cause: refusal });
  }
  if (refusal.isForeign) return foreignError(refusal, { action, subject }, 'S3');
  const ofCustomerKey = code === 'InvalidRequest' ? customerKeyHint(refusal.message) : undefined;
  const known = ofCustomerKey === undefined ? (BY_CODE[code] ?? codeOfStatus(status)) : 'InvalidConfig';
  if (known === 'NotFound' && code !== 'NoSuchUpload')
    return objectError(known, subject, 'does not exist', refusal);
  const mayBeKey = known === 'Denied' && action === 'read' && subject.hasCustomerKey;
  const hint = ofCustomerKey ?? HINTS[code] ?? (mayBeKey ? OR_CUSTOMER_KEY : permissionHint(refusal, action));
  return refusalError(refusal, { action, subject, code: known, hint });
}
