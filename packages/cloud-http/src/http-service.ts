/** Sends requests from a transfer worker: its own connections, memory that all threads share. */

import { serveCalls, type WorkerPort } from '@holdfast/core/contract';
import {
  DirectHttpClient,
  DirectHttpError,
  type DirectRequest,
  type DirectResponse,
} from '@holdfast/direct-http';
import { rootOf } from './errors.ts';

/** A request without what cannot be copied to another thread. */
export type ServiceRequest = Omit<DirectRequest, 'signal' | 'onBytes'>;

export interface ServiceOptions {
  readonly connectionsMax: number;
  readonly idleTimeoutMs: number;
  readonly ca?: readonly string[] | undefined;
}

export type ServiceAnswer =
  | { readonly response: DirectResponse }
  | {
      readonly failure: Pick<DirectHttpError, 'code' | 'message' | 'phase' | 'bytes' | 'isStale'>;
      /** The innermost cause. */
      readonly root: { readonly code: string; readonly text: string };
    };

export function serve(port: WorkerPort, { ca, ...limits }: ServiceOptions): void {
  const client = new DirectHttpClient({ ...limits, ...(ca !== undefined && { tls: { ca } }) });
  port.on('close', () => void client.close());
  serveCalls<ServiceRequest, ServiceAnswer>(port, async (request, call) => {
    try {
      return { response: await client.request({ ...request, ...call }) };
    } catch (error) {
      if (!(error instanceof DirectHttpError)) throw error;
      const { code, message, phase, bytes, isStale } = error;
      return { failure: { code, message, phase, bytes, isStale }, root: rootOf(error) };
    }
  });
}
