/** A service that closes its channel at the first call, and goes on writing into its memory. */

import type { WorkerPort } from '@holdfast/core/contract';

export function serve(port: WorkerPort): void {
  port.on('message', ({ request }: { request: Uint8Array }) => {
    port.close();
    setInterval(() => {
      request[0] = ((request[0] as number) + 1) & 0xff;
    }, 1);
  });
}
