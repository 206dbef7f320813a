/** etcd: a cluster of one member. */

import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ETCD_ENV, ETCD_TITLE, etcdProgram } from './etcd-program.ts';
import { describeOnServer, whyNone } from './server-suite.ts';
import { freePort, type RunningServer, requireRoom, startServer } from './start-server.ts';

const READY_REQUEST_TIMEOUT_MS = 2_000;
// etcd allocates a log of 61 MiB at once. The database stays small.
const ROOM_BYTES_MIN = 256 * 1024 ** 2;

export interface EtcdServer extends RunningServer {
  /** `http://127.0.0.1:port`. It needs no credentials. */
  readonly endpoint: string;
}

export interface EtcdServerOptions {
  /**
   * Directory for the data, which stays when the server ends. Default: in the server's own
   * directory, which is removed.
   */
  readonly dataDirectory?: string | undefined;
  /** Default: a free port. Give one to restart a server at the same address. */
  readonly port?: number | undefined;
}

/**
 * Starts an etcd that has elected itself leader, and fetches the program first if needed. See
 * `startServer` for its errors.
 */
export async function startEtcd({ dataDirectory, port }: EtcdServerOptions = {}): Promise<EtcdServer> {
  const binary = await etcdProgram();
  // Identifies this etcd among programs on this port.
  const name = `mark-${randomBytes(6).toString('hex')}`;
  const endpointAt = (at: number) => `http://127.0.0.1:${at}`;
  const server = await startServer({
    title: ETCD_TITLE,
    roomBytesMin: ROOM_BYTES_MIN,
    pickPort: async () => port ?? (await freePort()),
    command: (place) => ({
      words: [
        ...[binary, '--name', name, '--data-dir', dataDirectory ?? join(place.directory, 'data')],
        ...['--listen-client-urls', endpointAt(place.port)],
        ...['--advertise-client-urls', endpointAt(place.port)],
        // No other member will ever connect: any port does, and its number is not needed.
        ...['--listen-peer-urls', endpointAt(0), '--initial-advertise-peer-urls', endpointAt(0)],
        ...['--initial-cluster', `${name}=${endpointAt(0)}`],
        // Its shortest lease is fifteen heartbeats, rounded up to a second. The tests do not cover
        // loss of power.
        ...['--heartbeat-interval', '10', '--election-timeout', '100', '--unsafe-no-fsync'],
        ...['--logger', 'zap', '--log-level', 'error'],
      ],
      env: ETCD_ENV,
    }),
    isReady: (place) => isNamed(endpointAt(place.port), name),
  });
  return { ...server, endpoint: endpointAt(server.port) };
}

/** The name is known once it has been written down, which needs a leader. */
async function isNamed(endpoint: string, name: string): Promise<boolean> {
  const answer = await fetch(`${endpoint}/v3/cluster/member/list`, {
    method: 'POST',
    body: '{}',
    signal: AbortSignal.timeout(READY_REQUEST_TIMEOUT_MS),
  });
  const { members } = (await answer.json()) as { members?: readonly { name?: string }[] };
  return members?.some((member) => member.name === name) ?? false;
}

const WHY_NO_ETCD = await whyNone(
  ETCD_TITLE,
  () => etcdProgram(),
  (title) => requireRoom(title, tmpdir(), ROOM_BYTES_MIN),
);

/**
 * A `describe` with an etcd that runs as long as it. If there is no etcd, it is skipped with a line
 * that says why, unless the suite is required.
 */
export function describeOnEtcd(name: string, body: (server: () => EtcdServer) => void): void {
  describeOnServer({ suite: 'etcd', name, whyNone: WHY_NO_ETCD, open: () => startEtcd() }, body);
}
