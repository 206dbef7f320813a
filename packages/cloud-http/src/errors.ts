/**
 * Converts failed requests to `CheckpointError`. Each adapter maps its provider's codes. Everything
 * else is here.
 */

import { CheckpointError, type ErrorCode, isCheckpointError } from '@holdfast/core/contract';
import { DirectHttpError } from '@holdfast/direct-http';
import { told } from './plain-error.ts';
import { ProxyRefusal } from './proxy.ts';
import { UnwritableRequest } from './unwritable.ts';

/** Subject of a call, for its message. */
export interface StoreSubject {
  /** URI of the store. */
  readonly store: string;
  readonly key?: string | undefined;
}

/** An answer without success. */
export interface RefusedAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** False if the method allows no body in the answer. */
  readonly hasBody: boolean;
}

export interface RefusalDetails {
  /** The provider's own code, such as `NoSuchKey`; empty if the answer has none, as for HEAD. */
  readonly code: string;
  readonly message: string;
  /**
   * The provider's support finds the request by it. Its absence suggests that another server
   * answered.
   */
  readonly requestId: string | undefined;
}

/** Statuses that a proxy in front of a store sends itself: too slow, too large, too many. */
const OF_PROXIES: readonly number[] = [408, 413, 429];

/** A refusal from the provider, independent of the HTTP client. */
export class HttpRefusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly requestId: string | undefined;
  /** The store's clock. */
  readonly date: string | undefined;
  readonly retryAfterMs: number | undefined;
  /** Even the form of the answer is not the provider's. */
  readonly isForeign: boolean;
  /** The answer has no form to judge by: to HEAD, and without the provider's id. */
  readonly mayBeForeign: boolean;
  /** A success that cannot be understood: it may have taken effect. */
  readonly isUnclear: boolean;

  constructor(answer: RefusedAnswer, { code, message, requestId }: RefusalDetails) {
    super(message);
    this.name = 'HttpRefusal';
    this.status = answer.status;
    this.code = code;
    // Headers of a success are the server's own words: nothing was removed from them.
    this.requestId = answer.status < 300 && code === '' ? undefined : requestId;
    this.date = answer.headers['date'];
    this.retryAfterMs = retryAfterMsOf(answer.headers);
    const mayBeOfAProxy = answer.status >= 500 || OF_PROXIES.includes(answer.status);
    const isUnsigned = code === '' && !mayBeOfAProxy && requestId === undefined;
    this.isForeign = isUnsigned && answer.hasBody;
    this.mayBeForeign = isUnsigned && !answer.hasBody;
    this.isUnclear = answer.status < 300 && answer.hasBody;
  }
}

/** `Retry-After` in seconds, or as a date, which is compared with the server's own clock. */
function retryAfterMsOf(headers: RefusedAnswer['headers']): number | undefined {
  const asked = headers['retry-after'];
  if (asked === undefined) return undefined;
  const waitMs = /^\d+$/.test(asked)
    ? Number(asked) * 1000
    : Date.parse(asked) - Date.parse(headers['date'] ?? '');
  return waitMs > 0 ? waitMs : undefined;
}

/**
 * Text of an answer that is not a page: servers that expect another protocol explain that in one
 * line.
 */
export function plainText(body: string): string {
  const text = body.trim();
  return /^[^<{\p{Cc}]{1,120}$/u.test(text) ? text : '';
}

const BY_STATUS: Readonly<Record<number, ErrorCode>> = {
  301: 'InvalidConfig',
  307: 'Unavailable',
  401: 'Denied',
  403: 'Denied',
  404: 'NotFound',
  405: 'Unsupported',
  408: 'Unavailable',
  409: 'Unavailable',
  412: 'AlreadyExists',
  413: 'InvalidConfig',
  429: 'Throttled',
  501: 'Unsupported',
  507: 'StorageFull',
};

const STATUS_HINTS: Readonly<Record<number, string>> = {
  413: 'a proxy in front of the store rejects requests of this size',
};

/** Error code for a refusal whose own code the adapter does not know. */
export function codeOfStatus(status: number): ErrorCode {
  return BY_STATUS[status] ?? (status >= 500 ? 'Unavailable' : 'Unexpected');
}

export function objectError(
  code: ErrorCode,
  subject: StoreSubject,
  what: string,
  cause?: unknown,
): CheckpointError {
  return new CheckpointError(code, `${nameOf(subject)} ${what}`, { context: contextOf(subject), cause });
}

export interface Judgement {
  /** The attempted action, with the subject after it: "read", "create". */
  readonly action: string;
  readonly subject: StoreSubject;
  readonly code: ErrorCode;
  /** An explanation in addition to the store's own message. */
  readonly hint?: string | undefined;
}

/** Error for a refusal that its adapter has classified. */
export function refusalError(
  refusal: HttpRefusal,
  { action, subject, code, hint }: Judgement,
): CheckpointError {
  const { status, retryAfterMs, requestId } = refusal;
  if (code === 'Unexpected' && refusal.isUnclear)
    return refusalError(refusal, { action, subject, code: 'Unavailable', hint: hint ?? UNCLEAR });
  if (code === 'AlreadyExists') return objectError(code, subject, 'already exists', refusal);
  const answer = refusal.code === '' ? `HTTP ${status}` : refusal.code;
  const words = [hint ?? (refusal.code === '' ? (STATUS_HINTS[status] ?? '') : ''), refusal.message]
    .filter((part) => part !== '')
    .join(': ');
  const what = `cannot ${action} ${nameOf(subject)}: ${words === '' ? answer : `${words} (${answer})`}`;
  const context = { ...contextOf(subject), storeCode: refusal.code, httpStatus: status, requestId };
  return new CheckpointError(code, what, { context, cause: refusal, retryAfterMs });
}

const UNCLEAR = 'the answer says success, but not in the form of this store';

/** Actions that make an object. */
export const MAKES_NEW: readonly string[] = ['create', 'copy to'];

/**
 * Error for an answer that did not come from the provider. What answered may have passed the
 * request on, so a new object may be there all the same.
 */
export function foreignError(
  refusal: HttpRefusal,
  { action, subject: { store } }: Pick<Judgement, 'action' | 'subject'>,
  provider: string,
): CheckpointError {
  const said = refusal.message === '' ? '' : `, and said: ${refusal.message}`;
  const what = `does not lead to a server that speaks ${provider}: it answered HTTP ${refusal.status} in another form${said}; check endpoint=`;
  const uncertain = MAKES_NEW.includes(action) ? { status: 'exhausted' as const } : {};
  const options = { context: contextOf({ store }), cause: refusal, ...uncertain };
  return new CheckpointError('InvalidConfig', `${nameOf({ store })} ${what}`, options);
}

/**
 * `Denied`: the proxy requires credentials, or forbids the server. `InvalidConfig`: it is not a
 * proxy. Otherwise `Unavailable`: the failure may be temporary.
 */
export function proxyError(
  refusal: ProxyRefusal,
  { action, subject }: Pick<Judgement, 'action' | 'subject'>,
): CheckpointError {
  const { status, variable } = refusal;
  const proxy = variable === undefined ? 'a proxy in front of the server' : `the proxy of ${variable}`;
  const [code, told] = judgedByProxy(status);
  const advice = [
    `put its user and password into ${variable ?? 'HTTPS_PROXY'}: http://user:password@host:port, percent-encoded`,
    'or add the server to NO_PROXY, if it can be reached without a proxy',
  ];
  const context = { ...contextOf(subject), httpStatus: status, ...(code === 'Denied' && { advice }) };
  const what = `cannot ${action} ${nameOf(subject)}: ${proxy} ${told} (HTTP ${status})`;
  return new CheckpointError(code, what, { context, cause: refusal });
}

function judgedByProxy(status: number): readonly [ErrorCode, string] {
  if (status === 407) return ['Denied', 'requires credentials, or rejects those it was given'];
  if (status === 401 || status === 403) return ['Denied', 'rejects requests to this server'];
  if (status >= 500 || status === 408 || status === 429) return ['Unavailable', 'cannot reach the server'];
  return ['InvalidConfig', 'does not answer like a proxy; correct its address'];
}

/** The server's certificate was not trusted. */
const UNTRUSTED =
  /^(CERT_|ERR_TLS_CERT|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET_ISSUER|VERIFY))/;

/**
 * Failures without an answer. If bytes may have been sent, the effect of a write is unknown, so the
 * error is temporary. `serverHint`: another possible cause if the server's name does not exist.
 */
export function requestError(
  error: unknown,
  action: string,
  subject: StoreSubject,
  serverHint?: string,
): CheckpointError {
  if (isCheckpointError(error)) return error;
  if (error instanceof ProxyRefusal) return proxyError(error, { action, subject });
  const { code, text } = rootOf(error);
  const what = `cannot ${action} ${nameOf(subject)}`;
  if (error instanceof UnwritableRequest)
    return new CheckpointError('InvalidConfig', `${what}: ${text}`, {
      context: contextOf(subject),
      cause: error,
    });
  const options = { context: contextOf(subject), cause: told(error) };
  if (UNTRUSTED.test(code)) {
    const advice = 'set ca= to the certificate of its authority, or correct the endpoint';
    const words = `the certificate of the server is not trusted (${text}); ${advice}`;
    return new CheckpointError('InvalidConfig', `${what}: ${words}`, options);
  }
  if (isNoTls(error, text)) {
    const words = 'the server does not speak TLS there; write http:// in endpoint=, or correct its port';
    return new CheckpointError('InvalidConfig', `${what}: ${words} (${text})`, options);
  }
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    const hint = serverHint === undefined ? '' : `; ${serverHint}`;
    const words = `the name of the server cannot be resolved (${text})${hint}`;
    return new CheckpointError('Unavailable', `${what}: ${words}`, options);
  }
  if (error instanceof DirectHttpError || code !== '') {
    return new CheckpointError('Unavailable', `${what}: ${text}`, options);
  }
  // An internal error: it is unknown how far the request had come.
  return new CheckpointError('Unexpected', `${what}: ${text}`, { ...options, status: 'exhausted' });
}

/** Nothing was sent yet. TLS that fails later counts as a broken connection. */
function isNoTls(error: unknown, text: string): boolean {
  const isConnecting = !(error instanceof DirectHttpError) || error.phase === 'connect';
  return isConnecting && /wrong version number|packet length too long|unknown protocol/i.test(text);
}

/**
 * The innermost error, which says what happened; if several addresses were tried, that of the
 * first.
 */
export function rootOf(error: unknown): { code: string; text: string; name: string } {
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

/** Tells whether the signal stopped the request, independent of the HTTP client. */
export function isAbort(error: unknown): boolean {
  return (
    error instanceof Error &&
    (error.name === 'AbortError' || (error instanceof DirectHttpError && error.code === 'ABORTED'))
  );
}

export function nameOf({ store, key }: StoreSubject): string {
  return key === undefined ? store : `object ${key} in ${store}`;
}

export function contextOf({ store, key }: StoreSubject): { store: string; key?: string } {
  return key === undefined ? { store } : { store, key };
}
