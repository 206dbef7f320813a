/** Rejects a Node that is too old, before it fails with a less clear error. */

import { CheckpointError } from './errors.ts';

export const NODE_MAJOR_MIN = 22;

/** `version` is `undefined` outside Node. `Unsupported`: Node is too old. */
export function assertNode(version: string | undefined): void {
  if (version === undefined || Number.parseInt(version, 10) >= NODE_MAJOR_MIN) return;
  throw new CheckpointError(
    'Unsupported',
    `Holdfast needs Node ${NODE_MAJOR_MIN} or newer; this is Node ${version}`,
  );
}

const { process } = globalThis as { process?: { versions?: { node?: string } } };
assertNode(process?.versions?.node);
