/** The line between one process and its server, on which one request, or all of its kind, meet a fault. */

import { setImmediate as turn } from 'node:timers/promises';
import { SETTINGS } from '@holdfast/core';
import {
  type Answer,
  passOn,
  type Reply,
  type SeenRequest,
  scriptedServer,
} from '../scripted/scripted-server.ts';
import type { AmbiguousCloud } from './ambiguity-clouds.ts';
import type { AmbiguityFault, Hit } from './ambiguity-faults.ts';
import { MovedClock } from './moved-clock.ts';

/** `once`: this request. `always`: from it on, all of its kind. `gone`: after it nothing goes through any more. */
export type Scope = 'once' | 'always' | 'gone';

/** One request of a process, found again in another run: the n-th of its kind, from 0. */
export interface RequestName {
  /** Method and shape of path and query, without what is drawn by chance. */
  readonly kind: string;
  readonly index: number;
}

export interface Ambiguity {
  readonly request: RequestName;
  readonly fault: AmbiguityFault;
  readonly scope: Scope;
}

/** What others do while a request is on its way: before the server has it, or when it has been carried out. */
export interface Meanwhile {
  readonly when: 'before' | 'after';
  act(): Promise<void>;
}

/** After so many requests that were hit, deadlines have passed. */
const HITS_IN_TIME = 4;
/** A client that has sent so many did not heed its deadlines. */
const HITS_MAX = 400;
/** A request that was silent is given twice the time at each repeat, up to 32 times. */
const STALL_DOUBLINGS_MAX = 5;

interface Lingering {
  readonly kind: string;
  readonly request: SeenRequest;
  readonly arrival: 'before' | 'after';
}

export class Line {
  /** As the URI of a store takes it. */
  readonly endpoint: string;
  readonly clock = new MovedClock();
  /** Of all requests, in the order in which they came. */
  readonly names: RequestName[] = [];
  ambiguity: Ambiguity | undefined;
  /** At the first request that is hit. */
  meanwhile: Meanwhile | undefined;
  /** Requests that were hit. */
  hitCount = 0;
  /** Fires when the process goes on sending long after its deadlines. */
  readonly overrun = new AbortController();

  readonly #cloud: AmbiguousCloud;
  readonly #pass: (request: SeenRequest) => Promise<Answer>;
  readonly #kindOf: (request: SeenRequest) => string;
  readonly #lingering: Lingering[] = [];
  readonly #held = new Set<{ readonly kind: string; readonly release: () => void }>();
  #isEnded = false;

  private constructor(
    cloud: AmbiguousCloud,
    endpoints: { readonly own: string; readonly server: string },
    kindOf: (request: SeenRequest) => string,
  ) {
    this.endpoint = endpoints.own;
    this.#cloud = cloud;
    const pass = passOn(endpoints.server);
    this.#pass = async (request) => (await pass(request, 0)) as Answer;
    this.#kindOf = kindOf;
  }

  /** Open as long as the test. */
  static async open(
    cloud: AmbiguousCloud,
    endpoint: string,
    kindOf: (request: SeenRequest) => string,
  ): Promise<Line> {
    const { port } = await scriptedServer((request) => line.#answer(request), { keepsRequests: false });
    const own = new URL(endpoint);
    own.port = String(port);
    const line: Line = new Line(cloud, { own: own.href.replace(/\/$/, ''), server: endpoint }, kindOf);
    return line;
  }

  /** From now on all is well. What was held up arrives. */
  async recover(): Promise<void> {
    this.#isEnded = true;
    for (const { release } of this.#held) release();
    for (const { request } of this.#lingering.splice(0)) await this.#pass(request);
    await turn();
  }

  async #answer(request: SeenRequest): Promise<Reply> {
    const kind = this.#kindOf(request);
    const index = this.names.filter((name) => name.kind === kind).length;
    this.names.push({ kind, index });
    for (const held of this.#held) if (held.kind === kind) held.release();
    await this.#arrive(kind, 'before');
    const reply = await this.#reply(request, { kind, index });
    await this.#arrive(kind, 'after');
    return reply;
  }

  async #reply(request: SeenRequest, name: RequestName): Promise<Reply> {
    const { ambiguity } = this;
    if (ambiguity === undefined || this.#isEnded) return this.#pass(request);
    const { request: wanted, scope } = ambiguity;
    const isFirst = this.hitCount === 0 && name.kind === wanted.kind && name.index === wanted.index;
    const isLater =
      this.hitCount > 0 && (scope === 'gone' || (scope === 'always' && name.kind === wanted.kind));
    if (!isFirst && !isLater) return this.#pass(request);
    this.hitCount++;
    if (this.hitCount > HITS_MAX) this.overrun.abort();
    if (this.hitCount > HITS_IN_TIME) this.clock.skip(SETTINGS.recordTimeoutMs.default);
    if (isLater && scope === 'gone') return 'reset';
    if (this.meanwhile?.when === 'before') await this.#actMeanwhile();
    return ambiguity.fault.reply(this.#hit(request, name.kind));
  }

  async #actMeanwhile(): Promise<void> {
    const { meanwhile } = this;
    this.meanwhile = undefined;
    await meanwhile?.act();
  }

  #hit(request: SeenRequest, kind: string): Hit {
    return {
      refusal: (status) => this.#cloud.refusal(status, request),
      deliver: async () => {
        const answer = await this.#pass(request);
        await this.#actMeanwhile();
        return answer;
      },
      outlast: () =>
        new Promise((resolve) => {
          const held = {
            kind,
            release: () => {
              this.#held.delete(held);
              resolve();
            },
          };
          this.#held.add(held);
          this.clock.skip(
            SETTINGS.stallTimeoutMs.default * 2 ** Math.min(this.hitCount - 1, STALL_DOUBLINGS_MAX),
          );
        }),
      linger: (arrival) => this.#lingering.push({ kind, request, arrival }),
    };
  }

  async #arrive(kind: string, arrival: 'before' | 'after'): Promise<void> {
    const due = this.#lingering.filter((each) => each.kind === kind && each.arrival === arrival);
    for (const each of due) {
      this.#lingering.splice(this.#lingering.indexOf(each), 1);
      await this.#pass(each.request);
    }
  }
}
