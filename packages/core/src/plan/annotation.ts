/** Metrics and metadata that are recorded after the commit. Pure. */

import { ANNOTATED_METADATA_BYTES_MAX, METRIC_COUNT_MAX } from '../contract/ranges.ts';
import type { CatalogCheckpoint } from '../format/index.ts';
import { boundedReason } from './reason.ts';

export interface Annotation {
  readonly metrics: Readonly<Record<string, number>>;
  readonly metadata: Readonly<Record<string, string>>;
}

/**
 * The checkpoint with the annotation added: the last value of a name counts. Returns the same
 * object if nothing changes.
 */
export function annotated(
  checkpoint: CatalogCheckpoint,
  { metrics, metadata }: Annotation,
): CatalogCheckpoint {
  const news = {
    metrics: changedEntries(checkpoint.metrics, metrics),
    metadata: changedEntries(checkpoint.annotatedMetadata, metadata),
  };
  if (isEmptyAnnotation(news)) return checkpoint;
  return {
    ...checkpoint,
    metrics: merged(checkpoint.metrics, news.metrics),
    annotatedMetadata: merged(checkpoint.annotatedMetadata, news.metadata),
  };
}

/**
 * Why the annotations exceed the limits for one checkpoint; `undefined`: they do not. There are
 * limits because each entry repeats them.
 */
export function annotationProblem({ metrics, annotatedMetadata }: CatalogCheckpoint): string | undefined {
  const metricCount = Object.keys(metrics).length;
  if (metricCount > METRIC_COUNT_MAX)
    return `it would have ${metricCount} metrics; a checkpoint has at most ${METRIC_COUNT_MAX}`;
  const sizeBytes = metadataBytes(annotatedMetadata);
  if (sizeBytes <= ANNOTATED_METADATA_BYTES_MAX) return undefined;
  return `its annotated metadata would have ${sizeBytes} bytes; a checkpoint takes at most ${ANNOTATED_METADATA_BYTES_MAX}`;
}

/** Names and values together, UTF-8 bytes as JSON. */
export function metadataBytes(metadata: Readonly<Record<string, string>>): number {
  return new TextEncoder().encode(JSON.stringify(metadata)).length;
}

export function isEmptyAnnotation({ metrics, metadata }: Annotation): boolean {
  return Object.keys(metrics).length + Object.keys(metadata).length === 0;
}

/** The part of `said` that is not in `before` with the same values. */
export function annotationBeyond(before: Annotation, said: Annotation): Annotation {
  return {
    metrics: changedEntries(before.metrics, said.metrics),
    metadata: changedEntries(before.metadata, said.metadata),
  };
}

/** For the log: `auc=0.91, note="after the fix"`. */
export function annotationText({ metrics, metadata }: Annotation): string {
  const words = [
    ...Object.entries(metrics).map(([name, value]) => `${name}=${value}`),
    ...Object.entries(metadata).map(([name, text]) => `${name}=${JSON.stringify(text)}`),
  ];
  return boundedReason(words.join(', '));
}

function changedEntries<T>(
  before: Readonly<Record<string, T>>,
  after: Readonly<Record<string, T>>,
): Record<string, T> {
  const has = (name: string, value: T) => Object.hasOwn(before, name) && Object.is(before[name], value);
  return merged({}, Object.fromEntries(Object.entries(after).filter(([name, value]) => !has(name, value))));
}

/** Has no prototype, so `metrics['constructor']` is a metric or `undefined`. */
function merged<T>(a: Readonly<Record<string, T>>, b: Readonly<Record<string, T>>): Record<string, T> {
  return Object.assign(Object.create(null) as Record<string, T>, a, b);
}
