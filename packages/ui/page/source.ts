/** The source of the page's data: the server, with the token, or the data inside a report. */

import type { Problem, ReportData } from '../src/api.ts';
import { isVersionFilter, versionsPage } from '../src/versions-page.ts';

export class CallError extends Error {
  readonly code: string;

  constructor({ code, message }: Problem) {
    super(message);
    this.code = code;
  }
}

export type Query = Readonly<Record<string, string | number | readonly string[]>>;

export interface Source {
  /** `null`: the page is not a report. */
  readonly report: ReportData | null;
  readonly hasToken: boolean;
  /** The present time by the server's clock, to which all times of answers belong. */
  nowMs(): number;
  get<T>(path: string, query: Query, signal: AbortSignal): Promise<T>;
  post<T>(path: string, body: unknown): Promise<T>;
}

const TOKEN_KEY = 'holdfast-token';

/** Takes the token out of the address, so that a copied address does not hold it. */
function takeToken(): string | null {
  const given = /[#&]token=([\w-]+)/.exec(location.hash)?.[1];
  if (given === undefined) return sessionStorage.getItem(TOKEN_KEY);
  sessionStorage.setItem(TOKEN_KEY, given);
  const rest = location.hash.replace(/[#&]token=[\w-]+/, '');
  history.replaceState(null, '', rest === '' ? '#/' : rest);
  return given;
}

export function openSource(): Source {
  const inside = document.getElementById('holdfast-data');
  if (inside !== null) return reportSource(JSON.parse(inside.textContent ?? '') as ReportData);
  const token = takeToken();
  const headers = { authorization: `Bearer ${token ?? ''}` };
  const clock = new ServerClock();
  return {
    report: null,
    hasToken: token !== null,
    nowMs: () => clock.nowMs(),
    get: async (path, query, signal) => {
      const search = new URLSearchParams();
      for (const [name, value] of Object.entries(query))
        for (const each of [value].flat()) search.append(name, String(each));
      const response = await fetch(`${path}?${search}`, { headers, signal }).catch(unreachable);
      clock.note(response.headers.get('date'));
      return read(response);
    },
    post: async (path, body) =>
      read(
        await fetch(path, {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }).catch(unreachable),
      ),
  };
}

/** The clock in the header `Date`, which has whole seconds, may be a little behind. */
const SAME_CLOCK_MS = 5000;

/** The browser may be on another machine than the server, with another clock. */
class ServerClock {
  #aheadMs = 0;

  note(date: string | null): void {
    const aheadMs = Date.parse(date ?? '') - Date.now();
    if (!Number.isNaN(aheadMs)) this.#aheadMs = Math.abs(aheadMs) < SAME_CLOCK_MS ? 0 : aheadMs;
  }

  nowMs(): number {
    return Date.now() + this.#aheadMs;
  }
}

function unreachable(error: Error): never {
  if (error.name === 'AbortError') throw error;
  throw new CallError({ code: 'NoServer', message: 'the command `holdfast ui` does not answer' });
}

async function read<T>(response: Response): Promise<T> {
  const body = (await response.json()) as T | Problem;
  if (!response.ok) throw new CallError(body as Problem);
  return body as T;
}

function reportSource(report: ReportData): Source {
  const answers: Readonly<Record<string, (query: Query) => unknown>> = {
    '/api/session': () => report.session,
    '/api/run': () => report.run,
    '/api/run/events': () => report.events,
    '/api/run/goodput': () => report.goodput,
    '/api/run/versions': ({ filter, text, offset, limit }) =>
      versionsPage(report.rows, {
        filter: isVersionFilter(String(filter)) ? (String(filter) as 'all') : 'all',
        text: String(text),
        offset: Number(offset),
        limit: Number(limit),
      }),
  };
  return {
    report,
    hasToken: true,
    nowMs: () => report.madeAtMs,
    get: async <T>(path: string, query: Query) => {
      const answer = answers[path];
      if (answer === undefined)
        throw new CallError({
          code: 'NotFound',
          message: 'a report has no files of versions; holdfast show prints them',
        });
      return answer(query) as T;
    },
    post: () => Promise.reject(new CallError({ code: 'Denied', message: 'a report changes nothing' })),
  };
}
