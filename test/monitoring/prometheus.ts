/** A Prometheus that scrapes one address, and `promtool`. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PROMETHEUS_TITLE, prometheusPrograms } from '../servers/prometheus-program.ts';
import { describeOnServer, whyNone } from '../servers/server-suite.ts';
import { freePort, type RunningServer, startServer } from '../servers/start-server.ts';

const READY_REQUEST_TIMEOUT_MS = 2000;

export interface Prometheus extends RunningServer {
  readonly endpoint: string;
}

/** A series of the answer to an instant query. */
export interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: number;
}

/** `target`: `host:port`, scraped twice a second. `rules`: files with rules. */
export async function startPrometheus(target: string, rules: readonly string[]): Promise<Prometheus> {
  const { prometheus } = await prometheusPrograms();
  const endpointAt = (port: number) => `http://127.0.0.1:${port}`;
  const server = await startServer({
    title: PROMETHEUS_TITLE,
    roomBytesMin: 64 * 1024 ** 2,
    pickPort: freePort,
    prepare: async (directory) => {
      const config = {
        global: { scrape_interval: '500ms', scrape_timeout: '500ms', evaluation_interval: '500ms' },
        rule_files: rules,
        scrape_configs: [{ job_name: 'holdfast', static_configs: [{ targets: [target] }] }],
      };
      // JSON is YAML.
      await writeFile(join(directory, 'prometheus.yml'), JSON.stringify(config));
    },
    command: ({ directory, port }) => ({
      words: [
        prometheus,
        `--config.file=${join(directory, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(directory, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
        '--log.level=warn',
      ],
      env: {},
    }),
    isReady: async ({ port }) => {
      const signal = AbortSignal.timeout(READY_REQUEST_TIMEOUT_MS);
      return (await fetch(`${endpointAt(port)}/-/ready`, { signal })).ok;
    },
  });
  return { ...server, endpoint: endpointAt(server.port) };
}

/** The answer to an instant query. Throws with the message of Prometheus if it refuses it. */
export async function query({ endpoint }: Prometheus, expression: string): Promise<Series[]> {
  const answer = await fetch(`${endpoint}/api/v1/query?${new URLSearchParams({ query: expression })}`);
  const { status, error, data } = (await answer.json()) as {
    status: string;
    error?: string;
    data: { result: { metric: Record<string, string>; value: [number, string] }[] };
  };
  if (status !== 'success') throw new Error(`${expression}: ${error}`);
  return data.result.map(({ metric, value }) => ({ metric, value: Number(value[1]) }));
}

const WHY_NONE = await whyNone(PROMETHEUS_TITLE, async () => (await prometheusPrograms()).prometheus);

/** A `describe` with the programs. Skipped, with a line, if they cannot be had. */
export function describeOnPrometheus(
  name: string,
  body: (programs: () => Awaited<ReturnType<typeof prometheusPrograms>>) => void,
): void {
  const open = async () => ({ ...(await prometheusPrograms()), stop: async () => undefined });
  describeOnServer({ suite: 'prometheus', name, whyNone: WHY_NONE, open }, body);
}
