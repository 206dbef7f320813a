/** fake-gcs-server: an emulator of Google Cloud Storage. */

import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { FAKE_GCS, goProgram } from './go-program.ts';
import { type RunningServer, startServer } from './start-server.ts';

const READY_REQUEST_TIMEOUT_MS = 2_000;

export interface GcsServer extends RunningServer {
  /** `http://127.0.0.1:port`. It asks nobody who they are. */
  readonly endpoint: string;
}

export interface GcsServerOptions {
  /** Where the server's own directory is made: the directory for temporary files if not given. */
  readonly directory?: string | undefined;
  /** Where the objects are; in memory if not given. */
  readonly backend?: 'memory' | 'filesystem' | undefined;
}

/** A fake-gcs-server without buckets of ours; builds it first if need be. See `startServer` for what it may throw. */
export async function startFakeGcs(options: GcsServerOptions = {}): Promise<GcsServer> {
  const binary = await goProgram(FAKE_GCS);
  // It has no credentials that would tell it from another one on this port: it is known by a bucket of this name.
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
        // Without -data it would show what happens to be in /data.
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
