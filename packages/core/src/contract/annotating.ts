/** Metrics and metadata of a checkpoint that are known only after its commit. */

import type { CheckpointId, CheckpointReference } from './checkpoint-facts.ts';
import type { WaitOptions } from './progress.ts';

/** At least one of the two, with at least one name. */
export interface AnnotateOptions extends WaitOptions {
  /**
   * Finite numbers. A checkpoint has at most `METRIC_COUNT_MAX`, those of its commit included, with
   * names of 1 to `METRIC_NAME_LENGTH_MAX` characters.
   */
  metrics?: Readonly<Record<string, number>> | undefined;
  /**
   * Text, with names of 1 to `METADATA_NAME_LENGTH_MAX` characters. All annotated metadata of one
   * checkpoint takes at most `ANNOTATED_METADATA_BYTES_MAX` bytes as JSON.
   */
  metadata?: Readonly<Record<string, string>> | undefined;
}

export interface AnnotationCalls {
  /**
   * Records metrics and metadata of a committed checkpoint, such as those of an evaluation that ran
   * after the save. The files and the manifest do not change. `list`, `get`, rules by metrics and
   * mirrors see the new values from then on. The last value of a name counts. Names that this call
   * does not give keep their values, even if other processes annotate at the same time. Repeating
   * the call changes nothing.
   *
   * Resolves to the id of the checkpoint. `InvalidArgument`: nothing to record, a metric that is
   * not a finite number, or a name or text that is empty or too long. `NotFound`: there is no such
   * version, or it was removed. `Conflict`: it is retired (undelete it first), or it would have
   * more than the catalog accepts. `Corrupt`: it is quarantined. `OutcomeUnknown`: `recover` tells
   * whether it took effect.
   */
  annotate(checkpoint: CheckpointReference, annotation: AnnotateOptions): Promise<CheckpointId>;
}
