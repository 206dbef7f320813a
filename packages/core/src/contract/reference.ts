/** How checkpoints are called where versions alone may repeat: in messages, and on the command line. */

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

/** `7` of what is on the way to the latest, as a version alone is understood; `7@1` of what a rollback left behind. */
export function checkpointName(id: CheckpointId, isLeftBehind: boolean): string {
  return referenceText(isLeftBehind ? id : { version: id.version });
}
