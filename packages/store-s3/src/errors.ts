import { CheckpointError, type ErrorCode, isCheckpointError } from '@holdfast/core/contract';
import { DirectHttpError } from '@holdfast/direct-http';

/** What a call was about, for its message. */
export interface StoreSubject {
  /** URI of the store. */
  readonly store: string;
  readonly key?: string | undefined;
  /** Where credentials were looked for, if one is set. */
  readonly profile?: string | undefined;
  /** A key of the customer's is sent along. */
  readonly hasCustomerKey?: boolean | undefined;
}

/** What a proxy in front of a store answers by itself, in its own words: log in, too slow, too large, too many. */
const OF_PROXIES: readonly number[] = [407, 408, 413, 429];

/** A refusal as S3 tells it, whichever client received it. */
export class S3Refusal extends Error {
  readonly status: number;
  /** `NoSuchKey` and so on; empty where the answer had no such thing, as those to HEAD. */
  readonly code: string;
  readonly requestId: string | undefined;
  /** Of the bucket, where the answer tells it. */
  readonly region: string | undefined;
  /** The store's clock. */
  readonly date: string | undefined;
  readonly retryAfterMs: number | undefined;
  /** Not even the form of the answer is that of S3. */
  readonly isForeign: boolean;

  constructor(answer: S3Answer, code: string, message: string, region?: string) {
    super(message);
    this.name = 'S3Refusal';
    this.status = answer.status;
    this.code = code;
    this.requestId = answer.headers['x-amz-request-id'];
    this.region = answer.headers['x-amz-bucket-region'] ?? region;
    this.date = answer.headers.date;
    const seconds = Number(answer.headers['retry-after']);
    this.retryAfterMs = seconds > 0 ? seconds * 1000 : undefined;
    const mayBeOfAProxy = answer.status >= 500 || OF_PROXIES.includes(answer.status);
    this.isForeign = code === '' && answer.hasBody && !mayBeOfAProxy && this.requestId === undefined;
  }
}

export interface S3Answer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The method lets answers have one. */
  readonly hasBody: boolean;
}

/** From the XML of an error; one without it is judged by its status. */
export function refusalOf(answer: S3Answer, body: string): S3Refusal {
  const element = (name: string) => unescaped(new RegExp(`<${name}>([^<]*)</${name}>`).exec(body)?.[1] ?? '');
  const isError = body.includes('<Error>');
  const region = isError ? element('Region') : '';
  return new S3Refusal(
    answer,
    isError ? element('Code') : '',
    isError ? element('Message') : plainText(body),
    region === '' ? undefined : region,
  );
}

/** Of an answer that is no page: servers that expect something else say so in a line. */
function plainText(body: string): string {
  const text = body.trim();
  return /^[^<{\p{Cc}]{1,120}$/u.test(text) ? text : '';
}

/** A success in a form that S3 does not have: whoever answered is no S3. */
export function foreignSuccess(status: number, headers: S3Answer['headers']): S3Refusal {
  return new S3Refusal({ status, headers, hasBody: true }, '', '');
}

/** One item of a batch that was refused, while the request as a whole was not. */
export function itemRefusal(code: string, message: string): S3Refusal {
  return new S3Refusal({ status: 200, headers: {}, hasBody: false }, code, message);
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', apos: "'", gt: '>', lt: '<', quot: '"' };

function unescaped(text: string): string {
  return text
    .replace(/&#(\d{1,6});/g, (_, code: string) => String.fromCodePoint(Number(code)))
    .replace(/&(\w+);/g, (whole, name: string) => ENTITIES[name] ?? whole);
}

/** S3's codes, those of MinIO included. What is not here is judged by its HTTP status. */
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

  // Two writes met, or the store stumbled: whether ours has had its effect is not known.
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

const BY_STATUS: Readonly<Record<number, ErrorCode>> = {
  301: 'InvalidConfig',
  307: 'Unavailable',
  400: 'InvalidArgument',
  401: 'Denied',
  403: 'Denied',
  404: 'NotFound',
  405: 'Unsupported',
  407: 'Denied',
  408: 'Unavailable',
  409: 'Unavailable',
  412: 'AlreadyExists',
  413: 'InvalidConfig',
  429: 'Throttled',
  501: 'Unsupported',
  507: 'StorageFull',
};

/** What a person has to know beside the store's own words. */
const HINTS: Readonly<Record<string, string>> = {
  ExpiredToken: 'the session token has expired; get new credentials',
  InvalidAccessKeyId: 'the access key id is not known to this store',
  SignatureDoesNotMatch:
    'the secret key does not belong to the access key id, or a proxy changed the request',
  PermanentRedirect: 'the bucket is in another region; set region= in the URI',
  AuthorizationHeaderMalformed: 'the bucket is in another region; set region= in the URI',
  RequestTimeTooSkewed: 'the clock of this machine is wrong; set it',
  407: 'the proxy wants other credentials',
  413: 'a proxy in front of the store refuses requests of this size',
};

/** Stores have no code of their own for what is wrong with a key of the customer's. */
const OF_CUSTOMER_KEY: readonly (readonly [RegExp, string])[] = [
  [/secure connection/i, 'HOLDFAST_S3_CUSTOMER_KEY is taken over TLS only; write https:// in endpoint='],
  [
    /server side encryption|encryption parameters/i,
    'it was written with another HOLDFAST_S3_CUSTOMER_KEY than is set now, or with none, or none is set',
  ],
];

function customerKeyHint(message: string): string | undefined {
  return OF_CUSTOMER_KEY.find(([words]) => words.test(message))?.[1];
}

const OR_CUSTOMER_KEY = 'not permitted, or HOLDFAST_S3_CUSTOMER_KEY is another key than it was written with';

export function objectError(
  code: ErrorCode,
  subject: StoreSubject,
  what: string,
  cause?: unknown,
): CheckpointError {
  return new CheckpointError(code, `${nameOf(subject)} ${what}`, { context: contextOf(subject), cause });
}

/** A failed call as a `CheckpointError`. `action`: "read", "create"; the subject follows it in the message. */
export function storeError(error: unknown, action: string, subject: StoreSubject): CheckpointError {
  if (isCheckpointError(error)) return error;
  if (error instanceof S3Refusal) return refusalError(error, action, subject);
  return transportError(error, action, subject);
}

function refusalError(refusal: S3Refusal, action: string, subject: StoreSubject): CheckpointError {
  const { status, code } = refusal;
  if (code === 'NoSuchBucket') {
    const context = { store: subject.store, bucket: 'missing' };
    const what = `${subject.store} names a bucket that does not exist`;
    return new CheckpointError('NotFound', what, { context, cause: refusal });
  }
  if (refusal.isForeign) {
    const said = refusal.message === '' ? '' : `, and said: ${refusal.message}`;
    const what = `does not lead to a server that speaks S3: the answer to a request was HTTP ${status} in another form${said}; check endpoint=`;
    return objectError('InvalidConfig', { store: subject.store }, what, refusal);
  }
  const ofCustomerKey = code === 'InvalidRequest' ? customerKeyHint(refusal.message) : undefined;
  const byTable = BY_CODE[code] ?? BY_STATUS[status] ?? (status >= 500 ? 'Unavailable' : 'Unexpected');
  const known = ofCustomerKey === undefined ? byTable : 'InvalidConfig';
  if (known === 'NotFound' && code !== 'NoSuchUpload')
    return objectError(known, subject, 'does not exist', refusal);
  if (known === 'AlreadyExists') return objectError(known, subject, 'exists already', refusal);
  const answer = code === '' ? `HTTP ${status}` : code;
  const hint = ofCustomerKey ?? HINTS[code === '' ? status : code];
  const mayBeKey = known === 'Denied' && action === 'read' && subject.hasCustomerKey;
  const words = [hint ?? (mayBeKey ? OR_CUSTOMER_KEY : ''), refusal.message]
    .filter((part) => part !== '')
    .join(': ');
  const what = `cannot ${action} ${nameOf(subject)}: ${words === '' ? answer : `${words} (${answer})`}`;
  const context = { ...contextOf(subject), s3Code: code, httpStatus: status, requestId: refusal.requestId };
  // An answer of success that cannot be understood: it may well have had its effect.
  const uncertain = status < 300 && known === 'Unexpected' ? { status: 'exhausted' as const } : {};
  const { retryAfterMs } = refusal;
  return new CheckpointError(known, what, { context, cause: refusal, retryAfterMs, ...uncertain });
}

/** The server's certificate was not trusted. */
const UNTRUSTED =
  /^(CERT_|ERR_TLS_CERT|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET_ISSUER|VERIFY))/;

/** Failures without an answer. Whether a write has had its effect is not known, so they are temporary where something may have been sent. */
function transportError(error: unknown, action: string, subject: StoreSubject): CheckpointError {
  const { code, text, name } = rootOf(error);
  const what = `cannot ${action} ${nameOf(subject)}`;
  const options = { context: contextOf(subject), cause: error };
  if (name === 'CredentialsProviderError' || name === 'TokenProviderError') {
    const advice = 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the machine a role';
    const where = subject.profile === undefined ? '' : ` in the profile "${subject.profile}"`;
    const told = `no credentials were found${where} (${text}); ${advice}`;
    return new CheckpointError('Denied', `${what}: ${told}`, options);
  }
  if (UNTRUSTED.test(code)) {
    const advice = 'give the certificate of its authority with ca=, or correct the endpoint';
    return new CheckpointError(
      'InvalidConfig',
      `${what}: the certificate of the server is not trusted (${text}); ${advice}`,
      options,
    );
  }
  if (isNoTls(error, text)) {
    const told = 'the server does not speak TLS there; write http:// in endpoint=, or correct its port';
    return new CheckpointError('InvalidConfig', `${what}: ${told} (${text})`, options);
  }
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    const told = `the name of the server cannot be resolved (${text})`;
    return new CheckpointError('Unavailable', `${what}: ${told}`, options);
  }
  if (error instanceof DirectHttpError || code !== '') {
    return new CheckpointError('Unavailable', `${what}: ${text}`, options);
  }
  // A fault of ours: nobody knows how far the request had come.
  return new CheckpointError('Unexpected', `${what}: ${text}`, { ...options, status: 'exhausted' });
}

/** Nothing has been sent yet. TLS that breaks later is a broken connection like any other. */
function isNoTls(error: unknown, text: string): boolean {
  const isConnecting = !(error instanceof DirectHttpError) || error.phase === 'connect';
  return isConnecting && /wrong version number|packet length too long|unknown protocol/i.test(text);
}

/** The innermost error says what happened; of several addresses tried, the first. */
function rootOf(error: unknown): { code: string; text: string; name: string } {
  let root = error;
  while (root instanceof Error) {
    const inner: unknown = root instanceof AggregateError ? root.errors[0] : root.cause;
    if (!(inner instanceof Error)) break;
    root = inner;
  }
  const { code, message, name } = root as { code?: unknown; message?: unknown; name?: unknown };
  return {
    code: typeof code === 'string' ? code : '',
    text: String(message ?? root),
    name: String(name ?? ''),
  };
}

function nameOf({ store, key }: StoreSubject): string {
  return key === undefined ? store : `object ${key} in ${store}`;
}

function contextOf({ store, key }: StoreSubject): { store: string; key?: string } {
  return key === undefined ? { store } : { store, key };
}
