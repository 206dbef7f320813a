/**
 * Records metrics and metadata after the commit, such as evaluation results: docs/decisions/0031.
 */

import type { AnnotateOptions, CheckpointReference } from '../../contract/checkpoint-manager.ts';
import { CheckpointError } from '../../contract/errors.ts';
import { ANNOTATED_METADATA_BYTES_MAX, METADATA_NAME_LENGTH_MAX } from '../../contract/ranges.ts';
import { referenceText } from '../../contract/reference.ts';
import {
  type CatalogCheckpoint,
  type CheckpointId,
  type Reference,
  type State,
  toReference,
} from '../../format/index.ts';
import { type Annotation, annotationText, isEmptyAnnotation, metadataBytes } from '../../plan/annotation.ts';
import { checkpointText, wasRemoved, whyNotLive } from '../../plan/select.ts';
import { allReferredTo } from '../../plan/state.ts';
import { checkMeta, decide, type RunContext } from '../run/index.ts';

export async function annotate(
  run: RunContext,
  reference: CheckpointReference,
  { metrics, metadata, signal }: AnnotateOptions,
): Promise<CheckpointId> {
  const wanted = toReference(reference);
  return recordAnnotation(run, wanted, {
    ...checkAnnotation({ metrics, metadata }),
    signal,
  });
}

/** Records an annotation that was checked before. Throws as `CheckpointManager.annotate` does. */
export async function recordAnnotation(
  run: RunContext,
  wanted: Reference,
  { metrics, metadata, signal }: Annotation & { readonly signal: AbortSignal | undefined },
): Promise<CheckpointId> {
  let chosen: CheckpointId | undefined;
  await decide(
    run,
    ({ state }) => {
      const { lineage, epoch } = state;
      chosen = requireAnnotatable(state, wanted).id;
      const reason = annotationText({ metrics, metadata });
      return { kind: 'annotate', lineage, epoch, checkpoint: chosen, reason, metrics, metadata };
    },
    { what: `the annotation of version ${referenceText(wanted)}`, signal },
  );
  return chosen as NonNullable<typeof chosen>;
}

/** `InvalidArgument`: there is nothing to record, or a name or a text is not accepted. */
function checkAnnotation(given: Pick<AnnotateOptions, 'metrics' | 'metadata'>): Annotation {
  const annotation = checkMeta(given);
  if (isEmptyAnnotation(annotation))
    throw refusal('there is nothing to record: pass metrics, metadata, or both');
  for (const name of Object.keys(annotation.metrics)) checkName('a metric', name, Number.POSITIVE_INFINITY);
  for (const [name, text] of Object.entries(annotation.metadata)) {
    checkName('metadata', name, METADATA_NAME_LENGTH_MAX);
    if (!text.isWellFormed())
      throw refusal(`metadata "${name}" is not valid Unicode: it has half of a surrogate pair`);
  }
  const sizeBytes = metadataBytes(annotation.metadata);
  if (sizeBytes > ANNOTATED_METADATA_BYTES_MAX) {
    throw refusal(
      `the metadata has ${sizeBytes} bytes; a checkpoint is annotated with at most ${ANNOTATED_METADATA_BYTES_MAX}`,
    );
  }
  return annotation;
}

function checkName(what: string, name: string, lengthMax: number): void {
  if (name === '') throw refusal(`the name of ${what} is empty`);
  if (!name.isWellFormed())
    throw refusal(`the name of ${what} is not valid Unicode: it has half of a surrogate pair`);
  if (name.length <= lengthMax) return;
  throw refusal(
    `the name of ${what} "${name.slice(0, 40)}…" has ${name.length} characters; it takes at most ${lengthMax}`,
  );
}

function requireAnnotatable(state: State, wanted: Reference): CatalogCheckpoint {
  const found = allReferredTo(state, wanted);
  const live = found.find((each) => each.state === 'LIVE');
  if (live) return live;
  const [other] = found;
  const context = { version: wanted.version };
  if (!other) {
    const what = wasRemoved(state, wanted) ? 'was removed' : 'is not in the catalog';
    const message = `version ${referenceText(wanted)} ${what}`;
    throw new CheckpointError('NotFound', message, { context });
  }
  const name = checkpointText(other);
  const isRetiring = other.state === 'RETIRING';
  throw new CheckpointError(isRetiring ? 'Conflict' : 'Corrupt', `version ${name} ${whyNotLive(other)}`, {
    context: { ...context, checkpoint: name, state: isRetiring ? 'retiring' : 'quarantined' },
  });
}

function refusal(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
