/**
 * The connection between one process and its server. One request, or all requests of its kind, meet
 * a fault on it.
 */

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

/**
 * `once`: only this request. `always`: this request and all later ones of its kind. `gone`: no
 * request passes after this one.
 */
export type Scope = 'once' | 'always' | 'gone';

/** Identifies one request of a process across runs: the n-th of its kind, from 0. */
export interface RequestName {
  /** Method and shape of path and query, without random parts. */
  readonly kind: string;
  readonly index: number;
}

export interface Ambiguity {
  readonly request: RequestName;
  readonly fault: AmbiguityFault;
  readonly scope: Scope;
}

/**
 * What other processes do while a request is on its way: before the server receives it, or after
 * the server has carried it out.
 */
export interface Meanwhile {
  readonly when: 'before' | 'after';
  act(): Promise<void>;
}

/** Deadlines have passed after this many requests that met the fault. */
const HITS_IN_TIME = 4;
/** A client that sends more requests than this ignores its deadlines. */
const HITS_MAX = 400;
/** Each repeat after a silent request gets twice the time, up to 32 times. */
const STALL_DOUBLINGS_MAX = 5;

interface Lingering {
  readonly kind: string;
  readonly request: SeenRequest;
  readonly arrival: 'before' | 'after';
}

export class Line {
  /** In the form that the URI of a store takes. */
  readonly endpoint: string;
  readonly clock = new MovedClock();
  /** Names of all requests, in order of arrival. */
  readonly names: RequestName[] = [];
  ambiguity: Ambiguity | undefined;
  /** Runs at the first request that meets the fault. */
  meanwhile: Meanwhile | undefined;
  /** Number of requests that met the fault. */
  hitCount = 0;
  /** Fires if the process continues to send long after its deadlines. */
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

  /** The line stays open until the test ends. */
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

  /** Ends the fault and delivers all delayed requests. */
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
