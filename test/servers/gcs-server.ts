/** fake-gcs-server: an emulator of Google Cloud Storage. */

import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { FAKE_GCS, goProgram } from './go-program.ts';
import { type RunningServer, startServer } from './start-server.ts';

const READY_REQUEST_TIMEOUT_MS = 2_000;

export interface GcsServer extends RunningServer {
  /** `http://127.0.0.1:port`. It needs no credentials. */
  readonly endpoint: string;
}

export interface GcsServerOptions {
  /** Parent of the server's directory. Default: the directory for temporary files. */
  readonly directory?: string | undefined;
  /** Storage for the objects. Default: memory. */
  readonly backend?: 'memory' | 'filesystem' | undefined;
}

/**
 * Starts a fake-gcs-server without test buckets, and builds it first if needed. See `startServer`
 * for its errors.
 */
export async function startFakeGcs(options: GcsServerOptions = {}): Promise<GcsServer> {
  const binary = await goProgram(FAKE_GCS);
  // The server has no credentials that identify it among programs on this port. It is recognised by
  // a bucket with this name.
  const mark = `mark-${randomBytes(6).toString('hex')}`;
  const endpointAt = (port: number) => `http://127.0.0.1:${port}`;
  const server = await startServer({
    title: FAKE_GCS.title,
    parentDirectory: options.directory,
    prepare: async (directory) => {
      await mkdir(join(seedIn(directory), mark), { recursive: true });
    },
    command: ({ port, directory }) => ({
      words: [
        ...[binary, '-scheme', 'http', '-host', '127.0.0.1', '-port', `${port}`],
        ...['-external-url', endpointAt(port), '-public-host', `127.0.0.1:${port}`],
        // Without -data it would serve the contents of /data.
        ...['-backend', options.backend ?? 'memory', '-data', seedIn(directory)],
        ...['-filesystem-root', join(directory, 'data'), '-log-level', 'warn'],
      ],
      env: {},
    }),
    isReady: async ({ port }) => {
      const signal = AbortSignal.timeout(READY_REQUEST_TIMEOUT_MS);
      const answer = await fetch(`${endpointAt(port)}/storage/v1/b/${mark}`, { signal });
      await answer.arrayBuffer();
      return answer.status === 200;
    },
  });
  return { ...server, endpoint: endpointAt(server.port) };
}

function seedIn(directory: string): string {
  return join(directory, 'seed');
}
