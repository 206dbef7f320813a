/** Searches places in the background, each by itself, and serves what is known of their runs. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { CheckpointError, type Clock } from '@holdfast/core/contract';
import { FleetView, type FleetViewOptions } from '@holdfast/fleet';
import { CONTENT_TYPE, measuredRuns, metricsLines, type PlaceReport } from './metrics-text.ts';
import { Orphans, type OrphansOptions } from './orphans.ts';

/** A scrape is one request of a program on this machine. */
const CONNECTIONS_MAX = 64;
const LOOPBACK_NAMES = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i;

export interface ExporterOptions {
  readonly uris: readonly string[];
  readonly intervalMs: number;
  readonly runsMax: number;
  readonly programVersion: string;
  readonly fleet: FleetViewOptions;
  /** Absent: orphaned objects are not looked for. */
  readonly orphans?: Pick<OrphansOptions, 'everyMs' | 'open' | 'onFailure'> | undefined;
  readonly clock: Clock;
  /** Told once each time that searches of a place begin to fail, or to succeed again. */
  readonly onChange: (uri: string, problem: CheckpointError | null) => void;
}

interface Watched {
  readonly uri: string;
  readonly view: FleetView;
  refreshDurationMs: number | null;
  failureCount: number;
  isFailing: boolean;
}

export class Exporter {
  readonly #options: ExporterOptions;
  readonly #watched: readonly Watched[];
  readonly #orphans: Orphans | null;

  constructor(options: ExporterOptions) {
    this.#options = options;
    this.#watched = options.uris.map((uri) => ({
      uri,
      view: new FleetView(uri, { ...options.fleet, clock: options.clock }),
      refreshDurationMs: null,
      failureCount: 0,
      isFailing: false,
    }));
    const { orphans, clock, runsMax } = options;
    const uris = () => measuredRuns(this.#reports(), runsMax).runs.map(({ uri }) => uri);
    this.#orphans = orphans === undefined ? null : new Orphans({ ...orphans, clock, uris });
  }

  /** Searches each place once, and then for orphans. Rejects when the signal fires. */
  async refresh(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#watched.map((each) => this.#refresh(each, signal)));
    await this.#orphans?.pass(signal);
  }

  /**
   * Searches each place again and again, `intervalMs` after its last search. A slow store delays no
   * other place and no scrape. Rejects when the signal fires.
   */
  async run(signal: AbortSignal): Promise<never> {
    const { clock, intervalMs } = this.#options;
    const loop = async (each: Watched): Promise<never> => {
      for (;;) {
        await this.#refresh(each, signal);
        await clock.sleep(intervalMs, signal);
      }
    };
    const orphans = this.#orphans === null ? [] : [this.#orphans.run(signal)];
    return Promise.race([...this.#watched.map(loop), ...orphans]);
  }

  /** The page of metrics, from what is known at this moment. */
  text(): string {
    const orphansOf = (uri: string) => this.#orphans?.factsOf(uri);
    return `${[...metricsLines(this.#reports(), { ...this.#options, orphansOf })].join('\n')}\n`;
  }

  #reports(): readonly PlaceReport[] {
    return this.#watched.map(({ uri, view, refreshDurationMs, failureCount }) => ({
      ...{ uri, refreshDurationMs, failureCount },
      runs: view.runs,
      refreshedAtMs: view.refreshedAtMs,
    }));
  }

  async #refresh(each: Watched, signal: AbortSignal): Promise<void> {
    const { clock, onChange } = this.#options;
    const beganMs = clock.monotonicMs();
    await each.view.refresh(signal);
    each.refreshDurationMs = clock.monotonicMs() - beganMs;
    const { problem } = each.view;
    if (problem !== null) each.failureCount += 1;
    if ((problem !== null) === each.isFailing) return;
    each.isFailing = problem !== null;
    onChange(each.uri, problem && new CheckpointError(problem.code, problem.message));
  }
}

export interface Served {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Serves `/metrics` on loopback. Port 0: any free one. `InvalidArgument`: the port is taken or not
 * permitted.
 */
export async function serveMetrics(exporter: Pick<Exporter, 'text'>, port: number): Promise<Served> {
  const server = createServer((request, response) => answer(exporter, request, response));
  server.maxConnections = CONNECTIONS_MAX;
  await listen(server, port);
  const address = server.address();
  const used = typeof address === 'object' && address !== null ? address.port : port;
  return {
    url: `http://127.0.0.1:${used}/metrics`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(portError(port, error)));
    server.listen(port, '127.0.0.1', resolve);
  });
}

function portError(port: number, error: NodeJS.ErrnoException): CheckpointError {
  const what = error.code === 'EADDRINUSE' ? 'is taken by another program' : `cannot be used: ${error.code}`;
  return new CheckpointError(
    'InvalidArgument',
    `port ${port} of 127.0.0.1 ${what}; --port takes another one`,
    {
      cause: error,
    },
  );
}

function answer(
  exporter: Pick<Exporter, 'text'>,
  { method = '', url = '', headers }: IncomingMessage,
  response: ServerResponse,
): void {
  const refuse = (status: number, text: string) =>
    response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`);
  // A page of another site may resolve its own name to this machine.
  if (!LOOPBACK_NAMES.test(headers.host ?? '')) return void refuse(403, 'ask for 127.0.0.1 or localhost');
  if (method !== 'GET' && method !== 'HEAD') return void refuse(405, 'only GET');
  if (url.split('?')[0] !== '/metrics') return void refuse(404, 'the metrics are at /metrics');
  response.writeHead(200, { 'content-type': CONTENT_TYPE }).end(method === 'HEAD' ? '' : exporter.text());
}
