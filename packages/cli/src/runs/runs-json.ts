/** Runs in the form of `--json`. */

import type { RunSummary } from '@holdfast/fleet';
import { type JsonObject, jsonTime, jsonVersion, toJson } from '../json.ts';
import { monthlyCost, type Prices } from './prices.ts';

export function jsonRun(run: RunSummary, prices: Prices | null): JsonObject {
  const { latest, savesInProgress, verifiedVersion } = run;
  return {
    uri: run.uri,
    name: run.name,
    state: run.state,
    problem: toJson(run.problem),
    checkedAt: jsonTime(run.checkedAtMs),
    asOf: timeOrNull(run.asOfMs),
    storeTime: timeOrNull(run.storeTimeMs),
    runId: run.runId,
    latest: latest && {
      version: digits(latest.version),
      id: { lineage: latest.lineage, epoch: latest.epoch, version: digits(latest.version) },
      committedAt: jsonTime(latest.committedAtMs),
      ageMs: latest.ageMs,
      sizeBytes: latest.sizeBytes,
      fileCount: latest.fileCount,
      metrics: latest.metrics,
      isVerified: latest.isVerified,
      isSuspect: latest.isSuspect,
    },
    writers: run.writerCount,
    attempt: run.attempt,
    lineage: run.lineage,
    epoch: run.epoch,
    retained: run.retainedCount,
    retiring: run.retiringCount,
    quarantined: run.quarantinedCount,
    storedBytes: run.storedBytes,
    referencedBytes: run.referencedBytes,
    recentAttempts: run.recentAttemptCount,
    recentFences: run.recentFenceCount,
    recentSince: timeOrNull(run.historySinceMs),
    verifiedVersion: verifiedVersion === null ? null : digits(verifiedVersion),
    verifiedAt: timeOrNull(run.verifiedAtMs),
    saves:
      savesInProgress?.map(({ version, writerCount, deliveredWriters, missingWriters, uploadedBytes }) => ({
        version: digits(version),
        writers: writerCount,
        delivered: [...deliveredWriters],
        missing: missingWriters.map((each) => ({ ...each })),
        uploadedBytes,
      })) ?? null,
    ...(prices && { monthlyCost: monthlyCost(prices, run) }),
  };
}

function digits(version: string): number | string {
  return jsonVersion(BigInt(version));
}

function timeOrNull(atMs: number | null): string | null {
  return atMs === null ? null : jsonTime(atMs);
}
