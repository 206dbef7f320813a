import type { JsonObject } from '../json.ts';
import type { Finding } from './finding.ts';

/** In the format of docs/cli.md. */
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
