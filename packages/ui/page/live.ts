/** Hooks: data from the source, and its renewal while the page is visible. */

import { createContext } from 'preact';
import { useContext, useEffect, useRef, useState } from 'preact/hooks';
import type { CallError, Query, Source } from './source.ts';

export const SourceContext = createContext<Source | null>(null);

export function useSource(): Source {
  return useContext(SourceContext) as Source;
}

/** The page asks no more often, for each run that it shows. */
export const POLL_MS = 10_000;

export interface Loaded<T> {
  /** The last answer, also while a later request fails. */
  readonly data: T | null;
  readonly error: CallError | null;
  readonly reload: () => void;
}

/**
 * The answer of a call; asked again when path, query or `version` change, and each `pollMs` while
 * the page is visible. `merge` makes the new data of the former and an answer.
 */
export function useCall<T>(
  path: string | null,
  query: Query,
  options: {
    readonly version?: unknown;
    readonly pollMs?: number;
    readonly merge?: (before: T | null, answer: T) => T;
    /** Added to the query of polls. */
    readonly pollQuery?: (before: T | null) => Query;
  } = {},
): Loaded<T> {
  const source = useSource();
  const [state, setState] = useState<{ key: string; data: T | null; error: CallError | null }>({
    key: '',
    data: null,
    error: null,
  });
  const [round, setRound] = useState(0);
  const key = `${path} ${JSON.stringify(query)}`;
  const held = useRef<{ key: string; data: T | null }>({ key: '', data: null });
  useEffect(() => {
    if (path === null) return undefined;
    const end = new AbortController();
    if (held.current.key !== key) held.current = { key, data: null };
    const ask = async () => {
      const before = held.current.data;
      try {
        const answer = await source.get<T>(path, { ...query, ...options.pollQuery?.(before) }, end.signal);
        const data = options.merge ? options.merge(before, answer) : answer;
        held.current = { key, data };
        setState({ key, data, error: null });
      } catch (error) {
        if (!end.signal.aborted) setState({ key, data: before, error: error as CallError });
      }
    };
    void ask();
    const isPolled = options.pollMs !== undefined && source.report === null;
    const stop = isPolled ? poll(options.pollMs ?? POLL_MS, ask) : () => undefined;
    return () => {
      stop();
      end.abort();
    };
  }, [key, options.version, options.pollMs, round]);
  const isCurrent = state.key === key;
  return {
    data: isCurrent ? state.data : null,
    error: isCurrent ? state.error : null,
    reload: () => setRound((before) => before + 1),
  };
}

/** A hidden page asks nothing. One that becomes visible asks at once. */
function poll(pollMs: number, ask: () => Promise<void>): () => void {
  const timer = setInterval(() => {
    if (document.visibilityState === 'visible') void ask();
  }, pollMs);
  const shown = () => {
    if (document.visibilityState === 'visible') void ask();
  };
  document.addEventListener('visibilitychange', shown);
  return () => {
    clearInterval(timer);
    document.removeEventListener('visibilitychange', shown);
  };
}

/** The present time by the server's clock, renewed every few seconds, so that ages stay true. */
export function useNow(): number {
  const source = useSource();
  const [now, setNow] = useState(source.nowMs());
  useEffect(() => {
    if (source.report !== null) return undefined;
    const timer = setInterval(() => setNow(source.nowMs()), 5000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** The width of an element in pixels, and a reference to give to it. */
export function useWidth(): [{ current: HTMLElement | null }, number] {
  const element = useRef<HTMLElement | null>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (element.current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(entry?.contentRect.width ?? 0));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}
