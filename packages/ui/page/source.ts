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
  return {
    report: null,
    hasToken: token !== null,
    get: async (path, query, signal) => {
      const search = new URLSearchParams();
      for (const [name, value] of Object.entries(query))
        for (const each of [value].flat()) search.append(name, String(each));
      return read(await fetch(`${path}?${search}`, { headers, signal }).catch(unreachable));
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
