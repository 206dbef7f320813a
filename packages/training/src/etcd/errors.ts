/** Maps errors of etcd and of the connection to it to Holdfast's error codes. */

import { CheckpointError, type ErrorCode } from '@holdfast/core/contract';

/** An answer with a status other than 200. `text` is its body. */
export interface EtcdRefusal {
  readonly endpoint: string;
  readonly path: string;
  readonly status: number;
  readonly text: string;
}

// https://grpc.github.io/grpc/core/md_doc_statuscodes.html. For etcd's use of these codes see
// api/v3rpc/rpctypes/error.go of its source.
const CODE_OF_GRPC: Readonly<Record<number, ErrorCode>> = {
  3: 'InvalidArgument',
  4: 'Unavailable', // deadline exceeded
  5: 'NotFound', // a lease that has ended
  7: 'Denied',
  8: 'Throttled',
  14: 'Unavailable', // no leader, the leader has changed, a request timed out between members
  16: 'Denied',
};

/** Messages for which the gRPC code alone would mislead. */
const CODE_OF_MESSAGE: readonly (readonly [RegExp, ErrorCode])[] = [
  [/user name is empty|invalid user ID or password/, 'Denied'], // 3
  [/database space exceeded/, 'StorageFull'], // 8
];

export function refusalError({ endpoint, path, status, text }: EtcdRefusal): CheckpointError {
  const said = saidBy(text);
  const context = { endpoint, path, status };
  if (said === undefined) {
    const found = `${endpoint} answers ${path} with status ${status}`;
    const code = codeOfStatus(status);
    const hint = code === 'InvalidConfig' ? '; an endpoint is the client URL of an etcd from 3.4 on' : '';
    return new CheckpointError(code, `${found}${hint}`, { context });
  }
  const byMessage = CODE_OF_MESSAGE.find(([pattern]) => pattern.test(said.message))?.[1];
  const code = byMessage ?? CODE_OF_GRPC[said.code] ?? 'Unexpected';
  return new CheckpointError(code, `etcd at ${endpoint} refuses ${path}: ${said.message}`, { context });
}

/** No answer, or none in time. */
export function unreachableError(endpoint: string, path: string, error: unknown): CheckpointError {
  const isLate = error instanceof Error && error.name === 'TimeoutError';
  const why = isLate ? 'no answer in time' : reasonOf(error);
  const message = `etcd at ${endpoint} cannot be reached for ${path}: ${why}`;
  return new CheckpointError('Unavailable', message, { cause: error, context: { endpoint, path } });
}

/** A successful answer with content that etcd does not send. */
export function strangeAnswerError(endpoint: string, path: string, what: string): CheckpointError {
  return new CheckpointError(
    'InvalidConfig',
    `${endpoint} is not an etcd from 3.4 on: ${what} from ${path}`,
    {
      context: { endpoint, path },
    },
  );
}

/** For answers of something in front of etcd, such as a proxy: they have no message of etcd's. */
function codeOfStatus(status: number): ErrorCode {
  if (status === 401 || status === 403) return 'Denied';
  if (status === 429) return 'Throttled';
  return status >= 500 ? 'Unavailable' : 'InvalidConfig';
}

function saidBy(text: string): { code: number; message: string } | undefined {
  try {
    const { code, message } = JSON.parse(text) as { code?: unknown; message?: unknown };
    return typeof code === 'number' && typeof message === 'string' ? { code, message } : undefined;
  } catch {
    // Not JSON, so the answer is not from etcd.
    return undefined;
  }
}

/** `fetch` gives the reason in `cause`. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.cause instanceof AggregateError) return error.cause.errors.map(reasonOf).join(', ');
  return error.cause instanceof Error ? error.cause.message : error.message;
}
