/**
 * Describes failures of libraries that find credentials. Their messages quote what they have read:
 * files, commands, answers. So the messages are dropped, and only kind, code and status are kept.
 */

/** RFC 6749, RFC 8628 and RFC 8693. */
const OAUTH_ERRORS: readonly unknown[] = [
  'access_denied',
  'expired_token',
  'interaction_required',
  'invalid_client',
  'invalid_grant',
  'invalid_request',
  'invalid_scope',
  'invalid_target',
  'unauthorized_client',
  'unsupported_grant_type',
];

const NETWORK =
  /^(ECONN\w+|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE|CONNECT_FAILED|CLOSED_EARLY|TIMED_OUT|network_error|UND_ERR_\w+|TimeoutError|AbortError|REQUEST_SEND_ERROR)$/;

const LOOKED_AT_MAX = 32;

export class LibraryFailure extends Error {
  /** The library's name for it, such as `CredentialsProviderError`. */
  readonly kind: string;
  /** `ENOENT`, `invalid_grant`; empty if there is none. */
  readonly code: string;
  /** Status of the answer that the library received, if any. */
  readonly status: number | undefined;
  /** The network or a service failed, so the failure may be temporary. */
  readonly isTemporary: boolean;

  constructor(error: unknown) {
    const all = withCauses(error);
    const { kind, code, status } = factsOf(all);
    super(
      [kind, code, status === undefined ? '' : `HTTP ${status}`].filter((word) => word !== '').join(', '),
    );
    this.name = 'LibraryFailure';
    this.kind = kind;
    this.code = code;
    this.status = status;
    this.isTemporary =
      status === undefined
        ? all.some(({ code, name, errorCode }) =>
            [code, name, errorCode].some((word) => NETWORK.test(String(word))),
          )
        : status >= 500 || status === 429 || status === 408;
    this.stack = [`LibraryFailure: ${this.message}`, ...framesOf(error)].join('\n');
  }
}

interface Facts {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly status?: unknown;
  readonly statusCode?: unknown;
  readonly response?: { readonly status?: unknown; readonly data?: { readonly error?: unknown } };
  readonly $metadata?: { readonly httpStatusCode?: unknown };
  /** Set by Microsoft's library. */
  readonly errorCode?: unknown;
  readonly errorNo?: unknown;
  readonly errorResponse?: { readonly error?: unknown; readonly errorCodes?: unknown };
  readonly cause?: unknown;
  readonly errors?: unknown;
}

/** The error and its causes, outermost first. */
function withCauses(error: unknown): Facts[] {
  const found: Facts[] = [];
  const waiting: unknown[] = [error];
  while (waiting.length > 0 && found.length < LOOKED_AT_MAX) {
    const next = waiting.shift();
    if (typeof next !== 'object' || next === null || found.includes(next)) continue;
    const { cause, errors } = next as Facts;
    found.push(next as Facts);
    waiting.push(cause, ...(Array.isArray(errors) ? errors : []));
  }
  return found;
}

function factsOf(all: readonly Facts[]): Pick<LibraryFailure, 'kind' | 'code' | 'status'> {
  const [first] = all;
  const statuses = all.flatMap((each) => [
    each.response?.status,
    each.statusCode,
    each.status,
    each.$metadata?.httpStatusCode,
  ]);
  const codes = all.flatMap((each) => [...oauthCodes(each), systemCode(each.code)]);
  return {
    kind: identifier(first?.name),
    code: codes.find((code) => code !== '') ?? '',
    status: statuses.find((status) => typeof status === 'number' && status >= 300) as number | undefined,
  };
}

function oauthCodes({ response, errorResponse, errorCode, errorNo }: Facts): string[] {
  const told = [response?.data?.error, errorResponse?.error, errorCode];
  const words = told.filter((word) => OAUTH_ERRORS.includes(word));
  const [number = errorNo] = Array.isArray(errorResponse?.errorCodes)
    ? (errorResponse.errorCodes as unknown[])
    : [];
  return [...(/^[0-9]{4,10}$/.test(String(number)) ? [`AADSTS${number}`] : []), ...(words as string[])];
}

/** Error code of Node or of the system. */
function systemCode(code: unknown): string {
  return typeof code === 'string' && /^[A-Z][A-Z0-9_]{2,40}$/.test(code) ? code : '';
}

function identifier(name: unknown): string {
  return typeof name === 'string' && /^[A-Za-z]{1,60}$/.test(name) ? name : 'Error';
}

function framesOf(error: unknown): string[] {
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  return stack.split('\n').filter((line) => /^ {4}at /.test(line));
}
