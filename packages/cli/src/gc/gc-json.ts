/** What `gc --json` prints, as docs/cli.md has it. */

import type { CollectResult, RetentionPlan } from '@holdfast/core/contract';
import { type JsonObject, jsonId, jsonVersion, toJson } from '../json.ts';

export function planJson(plan: RetentionPlan): JsonObject {
  return {
    policy: toJson(plan.policy),
    checkpoints: plan.verdicts.map((each) => ({
      version: jsonVersion(each.version),
      id: jsonId(each.id),
      sizeBytes: each.sizeBytes,
      storedBytes: each.storedBytes,
      isLeftBehind: each.isLeftBehind,
      state: each.state,
      verdict: each.verdict,
      isBeyondRules: each.isBeyondRules,
      reasons: each.reasons,
    })),
    totalBytes: plan.totalBytes,
    droppedBytes: plan.droppedBytes,
    needsForce: plan.needsForce,
  };
}

export function collectJson({ plan, retired, removed, postponed, swept }: CollectResult): JsonObject {
  return {
    plan: planJson(plan),
    retired: retired.map(jsonVersion),
    removed: removed.map(jsonVersion),
    postponed: postponed.map(({ id, version, isLeftBehind, reason }) => ({
      ...{ version: jsonVersion(version), id: jsonId(id), isLeftBehind, reason },
    })),
    swept: toJson(swept),
  };
}
