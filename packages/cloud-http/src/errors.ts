/**
 * Failed requests as errors of ours. What a provider's own codes mean is its adapter's business;
 * the rest is here.
 */

import { CheckpointError, type ErrorCode, isCheckpointError } from '@holdfast/core/contract';
import { DirectHttpError } from '@holdfast/direct-http';
import { told } from './plain-error.ts';
import { ProxyRefusal } from './proxy.ts';
import { UnwritableRequest } from './unwritable.ts';

/** What a call was about, for its message. */
export interface StoreSubject {
  /** URI of the store. */
  readonly store: string;
  readonly key?: string | undefined;
}

/** An answer that is no success. */
export interface RefusedAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The method lets answers have one. */
  readonly hasBody: boolean;
}

export interface RefusalDetails {
  /** The provider's own, such as `NoSuchKey`; empty where the answer has none, as those to HEAD. */
  readonly code: string;
  readonly message: string;
  /**
   * By which the provider's support finds the request. Its absence is a sign that somebody else
   * answered.
   */
  readonly requestId: string | undefined;
}

/**
 * What a proxy in front of a store answers by itself, in its own words: too slow, too large, too
 * many.
 */
const OF_PROXIES: readonly number[] = [408, 413, 429];

/** A refusal as the provider tells it, whichever client received it. */
export class HttpRefusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly requestId: string | undefined;
  /** The store's clock. */
  readonly date: string | undefined;
  readonly retryAfterMs: number | undefined;
  /** Not even the form of the answer is the provider's. */
  readonly isForeign: boolean;

  constructor(answer: RefusedAnswer, { code, message, requestId }: RefusalDetails) {
    super(message);
    this.name = 'HttpRefusal';
    this.status = answer.status;
    this.code = code;
    this.requestId = requestId;
    this.date = answer.headers['date'];
    const seconds = Number(answer.headers['retry-after']);
    this.retryAfterMs = seconds > 0 ? seconds * 1000 : undefined;
    const mayBeOfAProxy = answer.status >= 500 || OF_PROXIES.includes(answer.status);
    this.isForeign = code === '' && answer.hasBody && !mayBeOfAProxy && requestId === undefined;
  }
}

/** Of an answer that is no page: servers that expect something else say so in a line. */
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
  413: 'a proxy in front of the store refuses requests of this size',
};

/** Of a refusal without a code that its adapter knows. */
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
  /** What was to be done, with the subject after it: "read", "create". */
  readonly action: string;
  readonly subject: StoreSubject;
  readonly code: ErrorCode;
  /** What a person has to know beside the store's own words. */
  readonly hint?: string | undefined;
}

/** A refusal that its adapter has judged. */
export function refusalError(
  refusal: HttpRefusal,
  { action, subject, code, hint }: Judgement,
): CheckpointError {
  const { status, retryAfterMs, requestId } = refusal;
  if (code === 'AlreadyExists') return objectError(code, subject, 'exists already', refusal);
  const answer = refusal.code === '' ? `HTTP ${status}` : refusal.code;
  const words = [hint ?? (refusal.code === '' ? (STATUS_HINTS[status] ?? '') : ''), refusal.message]
    .filter((part) => part !== '')
    .join(': ');
  const what = `cannot ${action} ${nameOf(subject)}: ${words === '' ? answer : `${words} (${answer})`}`;
  const context = { ...contextOf(subject), storeCode: refusal.code, httpStatus: status, requestId };
  // An answer of success that cannot be understood: it may well have had its effect.
  const uncertain = status < 300 && code === 'Unexpected' ? { status: 'exhausted' as const } : {};
  return new CheckpointError(code, what, { context, cause: refusal, retryAfterMs, ...uncertain });
}

/** Whoever answered is not the provider. */
export function foreignError(
  refusal: HttpRefusal,
  { store }: StoreSubject,
  provider: string,
): CheckpointError {
  const said = refusal.message === '' ? '' : `, and said: ${refusal.message}`;
  const what = `does not lead to a server that speaks ${provider}: the answer to a request was HTTP ${refusal.status} in another form${said}; check endpoint=`;
  return objectError('InvalidConfig', { store }, what, refusal);
}

/**
 * `Denied`: it wants credentials, or forbids the server. `InvalidConfig`: it is no proxy. Else
 * `Unavailable`: it may pass.
 */
export function proxyError(
  refusal: ProxyRefusal,
  { action, subject }: Pick<Judgement, 'action' | 'subject'>,
): CheckpointError {
  const { status, variable } = refusal;
  const proxy = variable === undefined ? 'a proxy before the server' : `the proxy of ${variable}`;
  const [code, told] = judgedByProxy(status);
  const advice = [
    `put its user and password into ${variable ?? 'HTTPS_PROXY'}: http://user:password@host:port, percent-encoded`,
    'or name the server in NO_PROXY, if it can be reached without a proxy',
  ];
  const context = { ...contextOf(subject), httpStatus: status, ...(code === 'Denied' && { advice }) };
  const what = `cannot ${action} ${nameOf(subject)}: ${proxy} ${told} (HTTP ${status})`;
  return new CheckpointError(code, what, { context, cause: refusal });
}

function judgedByProxy(status: number): readonly [ErrorCode, string] {
  if (status === 407) return ['Denied', 'wants credentials, or other ones than it was given'];
  if (status === 401 || status === 403) return ['Denied', 'does not let requests to this server through'];
  if (status >= 500 || status === 408 || status === 429) return ['Unavailable', 'cannot reach the server'];
  return ['InvalidConfig', 'does not do what a proxy does; correct its address'];
}

/** The server's certificate was not trusted. */
const UNTRUSTED =
  /^(CERT_|ERR_TLS_CERT|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET_ISSUER|VERIFY))/;

/**
 * Failures without an answer. Whether a write has had its effect is not known, so they are
 * temporary where something may have been sent. `serverHint`: what else may be wrong if the
 * server's name does not exist.
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
    const advice = 'give the certificate of its authority with ca=, or correct the endpoint';
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
  // A fault of ours: nobody knows how far the request had come.
  return new CheckpointError('Unexpected', `${what}: ${text}`, { ...options, status: 'exhausted' });
}

/** Nothing has been sent yet. TLS that breaks later is a broken connection like any other. */
function isNoTls(error: unknown, text: string): boolean {
  const isConnecting = !(error instanceof DirectHttpError) || error.phase === 'connect';
  return isConnecting && /wrong version number|packet length too long|unknown protocol/i.test(text);
}

/** The innermost error says what happened; of several addresses tried, the first. */
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

/** The request was stopped by its signal, whichever client it went through. */
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
