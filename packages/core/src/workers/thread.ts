/** The program of a transfer worker. It loads the services that the main thread asks for. */

import { type MessagePort, parentPort } from 'node:worker_threads';

interface Connect {
  readonly service: string;
  readonly options: unknown;
  readonly port: MessagePort;
}

parentPort?.on('message', async ({ service, options, port }: Connect) => {
  try {
    const { serve } = (await import(service)) as { serve: (port: MessagePort, options: unknown) => void };
    serve(port, options);
  } catch {
    port.close(); // Ends the thread, and with it the caller's calls.
  }
});
parentPort?.postMessage('ready');
