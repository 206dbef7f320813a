/** The part of the dropping store that runs in a worker. */

import { serveCalls } from '@holdfast/core/contract';

export function serve(port) {
  serveCalls(port, (bytes) => bytes.byteLength);
}
