/**
 * A model of many clients that send requests to one prefix of a store with a limit of requests per
 * second. Clients wait, slow down and repeat as the engine does. Only time and network are models.
 */

import { CheckpointError, type Random, repeatDelayMs } from '@holdfast/core/contract';
import { Pace } from '@holdfast/core/internal/transfer/pace';
import { RetryBudget } from '@holdfast/core/internal/transfer/retry';

/** Requests per second to one prefix, before the store splits it. */
export interface PrefixLimits {
  readonly writesPerSecond: number;
  /** Reads and pages of listings. */
  readonly readsPerSecond: number;
}

/** What AWS gives for S3. */
export const S3_LIMITS: PrefixLimits = { writesPerSecond: 3500, readsPerSecond: 5500 };

/** What every client sends: its reads first, which is the order of a join. */
export interface Load {
  readonly clients: number;
  readonly reads: number;
  readonly writes: number;
  /** Requests of one client in progress. */
  readonly lanes: number;
}

export interface Outcome {
  /** When the last client is done. */
  readonly seconds: number;
  /** Requests that the store has answered with 503. */
  readonly refused: number;
  /** Connections of all clients together, at the beginning. */
  readonly connections: number;
}

/** The time from a request to its answer. */
const LATENCY_MS = 30;
/** The limits hold for each of these periods. */
const PERIOD_MS = 100;
/** Defaults of the engine. */
const DELAYS = { delayMsBase: 100, delayMsMax: 20_000 };
const REPEATS_MAX = 640;

const SLOW_DOWN = new CheckpointError('Throttled', 'SlowDown');

interface Request {
  readonly client: Client;
  readonly kind: 'read' | 'write';
  readonly repeats: number;
  /** Those of the client when it was sent. */
  readonly slowdowns: number;
}

/** One writer. */
class Client {
  readonly limit: { concurrency: number };
  readonly pace: Pace;
  readonly budget = new RetryBudget(REPEATS_MAX);
  inProgress = 0;
  reads: number;
  writes: number;

  constructor({ reads, writes, lanes }: Load) {
    [this.reads, this.writes] = [reads, writes];
    this.limit = { concurrency: lanes };
    this.pace = new Pace([this.limit as never]);
  }

  /** The requests that may begin now. */
  *begin(): Generator<Request> {
    while (this.inProgress < this.limit.concurrency && this.reads + this.writes > 0) {
      const kind = this.reads > 0 ? 'read' : 'write';
      if (kind === 'read') this.reads -= 1;
      else this.writes -= 1;
      this.inProgress += 1;
      yield { client: this, kind, repeats: 0, slowdowns: this.pace.slowdowns };
    }
  }
}

/** All clients begin within the first `LATENCY_MS`. */
export function runLoad(load: Load, limits: PrefixLimits, random: Random): Outcome {
  const timeline = new Timeline();
  for (let index = 0; index < load.clients; index++)
    for (const request of new Client(load).begin()) timeline.add(random.fraction() * LATENCY_MS, request);
  const left = { read: 0, write: 0 };
  let refused = 0;
  while (timeline.waiting > 0) {
    const { ms } = timeline;
    if (ms % PERIOD_MS === 0) {
      left.read = (limits.readsPerSecond * PERIOD_MS) / 1000;
      left.write = (limits.writesPerSecond * PERIOD_MS) / 1000;
    }
    for (const request of timeline.take()) {
      const isRefused = left[request.kind] < 1;
      if (isRefused) refused += 1;
      else left[request.kind] -= 1;
      const next = isRefused ? repeated(request, random) : answered(request);
      for (const [delayMs, each] of next) timeline.add(ms + LATENCY_MS + delayMs, each);
    }
  }
  const connections = load.clients * Math.min(load.lanes, load.reads + load.writes);
  return { seconds: (timeline.ms + LATENCY_MS) / 1000, refused, connections };
}

/** Requests by the millisecond at which they arrive at the store. */
class Timeline {
  /** The present. */
  ms = 0;
  waiting = 0;
  readonly #arrivals: Request[][] = [];

  add(ms: number, request: Request): void {
    const at = Math.max(this.ms, Math.round(ms));
    this.#arrivals[at] ??= [];
    this.#arrivals[at].push(request);
    this.waiting += 1;
  }

  /** Those of the present, which then ends. */
  take(): readonly Request[] {
    const arrived = this.#arrivals[this.ms] ?? [];
    delete this.#arrivals[this.ms];
    this.ms += 1;
    this.waiting -= arrived.length;
    return arrived;
  }
}

/** The requests that follow, each with its delay. */
type Next = [delayMs: number, request: Request][];

function answered({ client }: Request): Next {
  client.inProgress -= 1;
  client.pace.succeeded();
  client.budget.succeeded();
  return [...client.begin()].map((request) => [0, request]);
}

function repeated(request: Request, random: Random): Next {
  const { client, repeats } = request;
  client.pace.throttled(request.slowdowns);
  const mayHurry = client.budget.take();
  const delayMs = mayHurry ? repeatDelayMs(SLOW_DOWN, repeats, { ...DELAYS, random }) : DELAYS.delayMsMax;
  return [[delayMs, { ...request, repeats: repeats + 1, slowdowns: client.pace.slowdowns }]];
}
