/**
 * Text names of checkpoints, in messages and on the command line. A version alone may be ambiguous.
 */

import type { CheckpointId, VersionInput } from './checkpoint-facts.ts';

/** `7`, or with its lineage `7@2`. */
export function referenceText({
  version,
  lineage,
}: {
  readonly version: VersionInput;
  readonly lineage?: number;
}): string {
  return lineage === undefined ? `${version}` : `${version}@${lineage}`;
}

/**
 * `7` for a checkpoint that the latest one descends from: a version alone means such a checkpoint.
 * `7@1` for one that a rollback left behind.
 */
export function checkpointName(id: CheckpointId, isLeftBehind: boolean): string {
  return referenceText(isLeftBehind ? id : { version: id.version });
}
