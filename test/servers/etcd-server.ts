/** etcd: one member, which is a cluster. */

import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ETCD_ENV, ETCD_TITLE, etcdProgram } from './etcd-program.ts';
import { describeOnServer, whyNone } from './server-suite.ts';
import { freePort, type RunningServer, requireRoom, startServer } from './start-server.ts';

const READY_REQUEST_TIMEOUT_MS = 2_000;
// A log of 61 MiB is laid out at once, and the database beside it stays small.
const ROOM_BYTES_MIN = 256 * 1024 ** 2;

export interface EtcdServer extends RunningServer {
  /** `http://127.0.0.1:port`. It asks nobody who they are. */
  readonly endpoint: string;
}

export interface EtcdServerOptions {
  /** Where its data is and stays when it ends; in its own directory, which goes with it, if not given. */
  readonly dataDirectory?: string | undefined;
  /** A free one if not given. For one that comes back where it was. */
  readonly port?: number | undefined;
}

/** An etcd that has a leader, itself; fetches the program first if need be. See `startServer` for what it may throw. */
export async function startEtcd({ dataDirectory, port }: EtcdServerOptions = {}): Promise<EtcdServer> {
  const binary = await etcdProgram();
  // What tells it from another one on this port.
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
        // No other member will ever ask: any port does, and nobody needs to know it.
        ...['--listen-peer-urls', endpointAt(0), '--initial-advertise-peer-urls', endpointAt(0)],
        ...['--initial-cluster', `${name}=${endpointAt(0)}`],
        // Its shortest lease is fifteen of its heartbeats, rounded up to a second; a machine that loses power is not tested.
        ...['--heartbeat-interval', '10', '--election-timeout', '100', '--unsafe-no-fsync'],
        ...['--logger', 'zap', '--log-level', 'error'],
      ],
      env: ETCD_ENV,
    }),
    isReady: (place) => isNamed(endpointAt(place.port), name),
  });
  return { ...server, endpoint: endpointAt(server.port) };
}

/** Its name is known once it has been written down, for which there has to be a leader. */
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

/** A `describe` with an etcd that runs as long as it. Skipped, with a line that says why, where there is none, unless it is required. */
export function describeOnEtcd(name: string, body: (server: () => EtcdServer) => void): void {
  describeOnServer({ suite: 'etcd', name, whyNone: WHY_NO_ETCD, open: () => startEtcd() }, body);
}
