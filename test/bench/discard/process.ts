/** The discarding server as a separate process. */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { cpuMsOf } from '../s3/process-cost.ts';
import type { Counts } from './counter.ts';

export type DialectName = 's3' | 'gcs' | 'azure';

export interface DiscardServer {
  /** `http://127.0.0.1:PORT`, or the same with TLS. */
  readonly endpoint: string;
  /** CPU time of the server so far. */
  readonly cpuMs: () => number;
  /** Counts since the last call. */
  readonly counts: () => Promise<Counts>;
  readonly close: () => Promise<void>;
}

const SCRIPT = fileURLToPath(new URL('./server.ts', import.meta.url));
const START_TIMEOUT_MS = 30_000;

/** The server returns the pattern of `patternPath`. */
export async function startDiscardServer(
  dialect: DialectName,
  patternPath: string,
  tls?: { readonly keyPath: string; readonly certificatePath: string },
): Promise<DiscardServer> {
  const files = tls ? [tls.keyPath, tls.certificatePath] : [];
  const child = fork(SCRIPT, [dialect, patternPath, ...files], {
    execArgv: ['--conditions=holdfast-source'],
  });
  const [{ port }] = (await once(child, 'message', { signal: AbortSignal.timeout(START_TIMEOUT_MS) })) as [
    { port: number },
  ];
  return {
    endpoint: `${tls ? 'https' : 'http'}://127.0.0.1:${port}`,
    cpuMs: () => cpuMsOf(child.pid ?? 0),
    counts: async () => {
      const answer = once(child, 'message') as Promise<[Counts]>;
      child.send('counts');
      return (await answer)[0];
    },
    close: async () => {
      const ended = once(child, 'exit');
      child.disconnect();
      await ended;
    },
  };
}
