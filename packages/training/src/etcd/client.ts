/**
 * etcd through its HTTP gateway: https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/.
 * docs/decisions/0013-etcd.md says why no library is used.
 */

import {
  aClock,
  anyText,
  CheckpointError,
  type Clock,
  isCheckpointError,
  listOf,
  optional,
  type Rules,
  systemClock,
  throwIfAborted,
} from '@holdfast/core/contract';
import { refusalError, strangeAnswerError, unreachableError } from './errors.ts';

export interface EtcdOptions {
  /**
   * Client URLs of one cluster, `http://host:2379` or https. They are tried in turn, starting with
   * the one that answered last. For certificates of a private authority set `NODE_EXTRA_CA_CERTS`.
   */
  readonly endpoints: readonly string[];
  readonly clock?: Clock | undefined;
}

export const ETCD_OPTIONS: Rules<EtcdOptions> = { endpoints: listOf(anyText), clock: optional(aClock) };

/** Limits of one call, however many endpoints it tries. */
export interface EtcdCall {
  /** By the monotonic clock. Each endpoint gets an equal share of the remaining time. */
  readonly untilMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface EtcdPair {
  readonly key: string;
  readonly value: Uint8Array;
  /**
   * Revision of the cluster when the key was last changed. Every change in the cluster increases
   * it.
   */
  readonly modRevision: bigint;
}

/** etcd's 64-bit number, in decimal. */
export type LeaseId = string;

export interface EtcdPut {
  readonly key: string;
  readonly value: Uint8Array;
  readonly lease: LeaseId;
}

export type EtcdChange =
  /** Without a lease the key stays for good. */
  | { readonly put: string; readonly value: Uint8Array; readonly lease?: LeaseId | undefined }
  /**
   * Removes all keys from this one up to, but not including, `below`. Without `below`, only this
   * key.
   */
  | { readonly remove: string; readonly below?: string | undefined };

export interface EtcdState {
  readonly key: string;
  /** 0: the key does not exist. */
  readonly modRevision: bigint;
}

type Json = Readonly<Record<string, unknown>>;

/** Keeps no connection open and needs no close. */
export class EtcdClient {
  readonly clock: Clock;
  readonly #endpoints: readonly string[];
  #preferred = 0;

  /** `InvalidConfig`: an endpoint is not such a URL, or there are no endpoints. */
  constructor({ endpoints, clock = systemClock }: EtcdOptions) {
    this.clock = clock;
    this.#endpoints = endpoints.map(checkedEndpoint);
    if (endpoints.length === 0)
      throw new CheckpointError('InvalidConfig', 'etcd needs at least one endpoint');
  }

  /**
   * All keys with this prefix, oldest first. With `isPrefix` false: only the key itself, if it
   * exists.
   */
  async range(key: string, isPrefix: boolean, call: EtcdCall): Promise<readonly EtcdPair[]> {
    const end = isPrefix ? { range_end: prefixEnd(key), sort_target: 'CREATE', sort_order: 'ASCEND' } : {};
    const { endpoint, answer } = await this.#call('/v3/kv/range', { key: base64(key), ...end }, call);
    return pairsOf(answer, endpoint);
  }

  /** Number of keys with this prefix. */
  async count(prefix: string, call: EtcdCall): Promise<number> {
    const body = { key: base64(prefix), range_end: prefixEnd(prefix), count_only: true };
    const { answer } = await this.#call('/v3/kv/range', body, call);
    return Number(answer['count'] ?? 0);
  }

  /**
   * Creates the key, or sets it if it already has this value, in one step. False if it has another
   * value. The key ends with the lease. Safe to repeat. `NotFound`: the lease has ended.
   */
  async putIfAbsentOrSame({ key, value, lease }: EtcdPut, call: EtcdCall): Promise<boolean> {
    const name = base64(key);
    const content = base64(value);
    const put = { request_put: { key: name, value: content, lease } };
    const isSame = { target: 'VALUE', result: 'EQUAL', key: name, value: content };
    const isAbsent = { target: 'CREATE', result: 'EQUAL', key: name, create_revision: '0' };
    const orElse = { request_txn: { compare: [isSame], success: [put] } };
    const body = { compare: [isAbsent], success: [put], failure: [orElse] };
    const { endpoint, answer } = await this.#call('/v3/kv/txn', body, call);
    if (answer['succeeded'] === true) return true;
    const [response] = recordsIn(answer, 'responses', endpoint, '/v3/kv/txn');
    const inner = response?.['response_txn'];
    if (!isJson(inner)) throw strangeAnswerError(endpoint, '/v3/kv/txn', 'no response_txn');
    return inner['succeeded'] === true;
  }

  /**
   * Makes all changes in one step if all given keys are unchanged; otherwise makes none and
   * resolves to false. At most 128 of each.
   *
   * Also false if the change was made but its reply was lost, so that it was sent twice: read the
   * keys to find out. `NotFound`: a lease has ended.
   */
  async change(
    unchanged: readonly EtcdState[],
    changes: readonly EtcdChange[],
    call: EtcdCall,
  ): Promise<boolean> {
    const compare = unchanged.map(({ key, modRevision }) => {
      return { target: 'MOD', result: 'EQUAL', key: base64(key), mod_revision: String(modRevision) };
    });
    const { answer } = await this.#call('/v3/kv/txn', { compare, success: changes.map(operationOf) }, call);
    return answer['succeeded'] === true;
  }

  /** False if the lease has ended. */
  async keepLease(lease: LeaseId, call: EtcdCall): Promise<boolean> {
    const { endpoint, answer } = await this.#call('/v3/lease/keepalive', { ID: lease }, call);
    const { result } = answer;
    if (isJson(result)) return Number(result['TTL'] ?? 0) > 0;
    throw strangeAnswerError(endpoint, '/v3/lease/keepalive', 'no result');
  }

  /**
   * `seconds`: whole, at least 1; the server may grant a longer time. If the reply is lost, the
   * lease expires by itself.
   */
  async grantLease(seconds: number, call: EtcdCall): Promise<{ id: LeaseId; seconds: number }> {
    const { endpoint, answer } = await this.#call('/v3/lease/grant', { TTL: String(seconds) }, call);
    const id = answer['ID'];
    const granted = Number(answer['TTL']);
    if (typeof id === 'string' && granted > 0) return { id, seconds: granted };
    throw strangeAnswerError(endpoint, '/v3/lease/grant', 'no lease');
  }

  /** Deletes the keys of the lease too. Succeeds if the lease has already ended. */
  async revokeLease(lease: LeaseId, call: EtcdCall): Promise<void> {
    try {
      await this.#call('/v3/lease/revoke', { ID: lease }, call);
    } catch (error) {
      if (!isCheckpointError(error, 'NotFound')) throw error;
    }
  }

  /** May run a request twice: on an endpoint whose answer was lost, and on the next one. */
  async #call(path: string, body: Json, call: EtcdCall): Promise<{ endpoint: string; answer: Json }> {
    const count = this.#endpoints.length;
    const first = this.#preferred;
    let failure: CheckpointError | undefined;
    for (let tried = 0; tried < count; tried++) {
      const index = (first + tried) % count;
      const endpoint = this.#endpoints[index] ?? '';
      const leftMs = Math.floor((call.untilMs - this.clock.monotonicMs()) / (count - tried));
      if (leftMs <= 0) break;
      try {
        const answer = await ask(endpoint, path, body, { timeoutMs: leftMs, signal: call.signal });
        this.#preferred = index;
        return { endpoint, answer };
      } catch (error) {
        throwIfAborted(call.signal);
        if (!isCheckpointError(error, 'Unavailable')) throw error;
        failure = error;
      }
    }
    throw (
      failure ?? new CheckpointError('Unavailable', `the time is over before etcd could be asked for ${path}`)
    );
  }
}

async function ask(
  endpoint: string,
  path: string,
  body: Json,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal | undefined },
): Promise<Json> {
  const late = AbortSignal.timeout(timeoutMs);
  let status: number;
  let text: string;
  try {
    const response = await fetch(`${endpoint}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      redirect: 'manual',
      signal: signal === undefined ? late : AbortSignal.any([late, signal]),
    });
    status = response.status;
    text = await response.text();
  } catch (error) {
    throw unreachableError(endpoint, path, error);
  }
  if (status !== 200) throw refusalError({ endpoint, path, status, text });
  return parsed(text, endpoint, path);
}

function parsed(text: string, endpoint: string, path: string): Json {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    // The error below says what came instead.
  }
  // Every answer of etcd names its cluster in a header; answers of a stream are wrapped in
  // `result`.
  const said = isJson(answer) && isJson(answer['result']) ? answer['result'] : answer;
  if (isJson(answer) && isJson(said) && isJson(said['header'])) return answer;
  throw strangeAnswerError(endpoint, path, 'an answer without a header');
}

function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** etcd omits empty lists. */
function recordsIn(answer: Json, name: string, endpoint: string, path: string): readonly Json[] {
  const list = answer[name] ?? [];
  if (Array.isArray(list) && list.every(isJson)) return list;
  throw strangeAnswerError(endpoint, path, `"${name}" that is no list`);
}

function pairsOf(answer: Json, endpoint: string): readonly EtcdPair[] {
  return recordsIn(answer, 'kvs', endpoint, '/v3/kv/range').map(({ key, value = '', mod_revision }) => {
    if (typeof key === 'string' && typeof value === 'string' && /^\d+$/.test(String(mod_revision))) {
      const name = Buffer.from(key, 'base64').toString('utf8');
      const modRevision = BigInt(String(mod_revision));
      return { key: name, value: Buffer.from(value, 'base64'), modRevision };
    }
    throw strangeAnswerError(endpoint, '/v3/kv/range', 'a key without its value');
  });
}

function operationOf(change: EtcdChange): Json {
  if ('remove' in change) {
    const end = change.below === undefined ? {} : { range_end: base64(change.below) };
    return { request_delete_range: { key: base64(change.remove), ...end } };
  }
  const { put, value, lease = '0' } = change;
  return { request_put: { key: base64(put), value: base64(value), lease } };
}

function base64(content: string | Uint8Array): string {
  return Buffer.from(content as string).toString('base64');
}

/** The smallest key above all keys with this prefix. */
function prefixEnd(prefix: string): string {
  const bytes = Buffer.from(prefix, 'utf8');
  // UTF-8 contains no byte 255.
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) + 1;
  return bytes.toString('base64');
}

function checkedEndpoint(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain =
    url !== undefined &&
    /^https?:$/.test(url.protocol) &&
    `${url.username}${url.password}${url.search}${url.hash}` === '' &&
    url.pathname === '/';
  if (isPlain) return url.origin;
  // The message omits the text because it may contain a password.
  throw new CheckpointError(
    'InvalidConfig',
    'an endpoint of etcd is http://HOST:PORT or https://HOST:PORT, without user, path and query',
  );
}
