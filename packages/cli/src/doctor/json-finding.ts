import type { JsonObject } from '../json.ts';
import type { Finding } from './check.ts';

/** As docs/cli.md has it. */
export function jsonFinding(finding: Finding): JsonObject {
  const { id, title, status, seen, meaning, advice, code, because, durationMs, figures } = finding;
  return {
    id,
    title,
    status,
    seen,
    meaning,
    advice,
    code,
    because,
    durationMs: Math.round(durationMs),
    figures,
  };
}
