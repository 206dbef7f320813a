/** Output of `--json`. Field names are stable, and documented in docs/cli.md. */

import type { CheckpointError, CheckpointId, CheckpointSummary } from '@holdfast/core/contract';

import { isoTime } from './format.ts';

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;
export interface JsonObject {
  readonly [name: string]: JsonValue | JsonRows;
}

/**
 * A possibly long array: its items are generated while it is printed. Only a field of the outermost
 * object may be one.
 */
export class JsonRows {
  readonly rows: () => Iterable<JsonValue>;

  constructor(rows: () => Iterable<JsonValue>) {
    this.rows = rows;
  }
}

/** A number if JSON readers keep it exactly, otherwise its digits. */
export function jsonVersion(version: bigint): number | string {
  return version <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(version) : String(version);
}

/** ISO 8601 in UTC, or `null` if there is no time. */
export function jsonTime(atMs: number): string | null {
  return atMs > 0 ? isoTime(atMs) : null;
}

export function jsonId(id: CheckpointId): JsonObject {
  return { lineage: id.lineage, epoch: id.epoch, version: jsonVersion(id.version) };
}

export function jsonSummary(summary: CheckpointSummary): JsonObject {
  return {
    version: jsonVersion(summary.version),
    id: jsonId(summary.id),
    sizeBytes: summary.sizeBytes,
    storedBytes: summary.storedBytes,
    bases: summary.bases.map(jsonId),
    fileCount: summary.fileCount,
    metrics: summary.metrics,
    state: summary.state,
    isLatest: summary.isLatest,
    pins: summary.pins,
    isVerified: summary.isVerified,
    isSuspect: summary.isSuspect,
    isLeftBehind: summary.isLeftBehind,
    reason: summary.reason,
    committedAt: jsonTime(summary.committedAtMs),
    graceUntil: jsonTime(summary.graceUntilMs ?? 0),
  };
}

/** `advice`: what to do, one line each. */
export function jsonError(error: CheckpointError, advice: readonly string[]): JsonObject {
  const { advice: _, ...context } = error.context;
  return {
    code: error.code,
    message: error.message,
    exitCode: error.exitCode,
    status: error.status,
    advice: [...advice],
    context: toJson(context) as JsonObject,
  };
}

/**
 * Any value as JSON: integers beyond 2^53 become strings, and values without a form in JSON become
 * text.
 */
export function toJson(value: unknown): JsonValue {
  if (typeof value === 'bigint') return jsonVersion(value);
  if (value === null || value === undefined) return null;
  if (Array.isArray(value)) return value.map(toJson);
  if (value instanceof Error) return value.message;
  if (typeof value === 'object') {
    const entries = Object.entries(value).filter(([, item]) => item !== undefined);
    return Object.fromEntries(entries.map(([name, item]) => [name, toJson(item)]));
  }
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  return typeof value === 'string' || typeof value === 'boolean' ? value : String(value);
}
