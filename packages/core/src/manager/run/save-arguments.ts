/** Checks what every save is given besides its files. */

import type { CommitMeta, WriterPosition } from '../../contract/checkpoint-manager.ts';
import { shown } from '../../contract/checks.ts';
import { CheckpointError } from '../../contract/errors.ts';
import {
  METADATA_BYTES_MAX,
  METRIC_COUNT_MAX,
  METRIC_NAME_LENGTH_MAX,
  WORLD_SIZE_MAX,
} from '../../contract/ranges.ts';

export function checkWriter(writer: WriterPosition): WriterPosition {
  const { index, count } = writer;
  if (!Number.isSafeInteger(count) || count < 1 || count > WORLD_SIZE_MAX) {
    throw new CheckpointError(
      'InvalidArgument',
      `the writer count is ${shown(count)}; it takes a whole number from 1 to ${WORLD_SIZE_MAX}`,
    );
  }
  if (!Number.isSafeInteger(index) || index < 0 || index >= count) {
    throw new CheckpointError(
      'InvalidArgument',
      `there is no writer ${shown(index)} of ${count}: writers count from 0 to ${count - 1}`,
    );
  }
  return writer;
}

/** Metrics are finite numbers, metadata is text. Both are small enough for a receipt. */
export function checkMeta(meta: CommitMeta): {
  metrics: Record<string, number>;
  metadata: Record<string, string>;
} {
  const metrics = { ...meta.metrics };
  const metadata = { ...meta.metadata };
  checkMetrics(metrics);
  checkMetadata(metadata);
  return { metrics, metadata };
}

function checkMetrics(metrics: Readonly<Record<string, number>>): void {
  const entries = Object.entries(metrics);
  if (entries.length > METRIC_COUNT_MAX)
    throw refusal(`there are ${entries.length} metrics; a checkpoint takes at most ${METRIC_COUNT_MAX}`);
  for (const [name, value] of entries) {
    if (name.length > METRIC_NAME_LENGTH_MAX)
      throw refusal(
        `the name of metric "${name.slice(0, 40)}…" has ${name.length} characters; it takes at most ${METRIC_NAME_LENGTH_MAX}`,
      );
    if (typeof value !== 'number' || !Number.isFinite(value))
      throw refusal(`metric "${name}" is ${shown(value)}; it takes a finite number`);
  }
}

function checkMetadata(metadata: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(metadata)) {
    if (typeof value !== 'string')
      throw refusal(`metadata "${name}" is of type ${typeof value}; it takes text`);
  }
  const sizeBytes = Buffer.byteLength(JSON.stringify(metadata));
  if (sizeBytes > METADATA_BYTES_MAX)
    throw refusal(`the metadata has ${sizeBytes} bytes; a save takes at most ${METADATA_BYTES_MAX}`);
}

function refusal(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
