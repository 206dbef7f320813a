import { CheckpointError, type ErrorCode } from '@holdfast/core/contract';
import type { Finding } from './finding.ts';

/** `unknown`: an important check could not be carried out. */
export type Verdict = 'safe' | 'unsafe' | 'unknown';

export function verdictOf(findings: readonly Finding[]): Verdict {
  const failed = findings.filter(({ status }) => status === 'failed');
  if (failed.length === 0) return 'safe';
  return failed.some(isBroken) ? 'unsafe' : 'unknown';
}

/** A broken contract outweighs a check that could not be carried out. */
function isBroken({ code }: Finding): boolean {
  return code === 'Unsupported';
}

/** Error with which the command ends; `null` if the store is safe. `uri`: without credentials. */
export function errorOf(findings: readonly Finding[], uri: string): CheckpointError | null {
  const failed = findings.filter(({ status }) => status === 'failed');
  const worst = failed.find(isBroken) ?? failed[0];
  if (worst === undefined) return null;
  const context = { store: uri, failed: failed.map(({ id }) => id) };
  if (isBroken(worst)) {
    return new CheckpointError('Unsupported', `${uri} is not safe for checkpoints: ${worst.meaning}`, {
      context: { ...context, advice: [worst.advice] },
    });
  }
  const code = worst.code as ErrorCode;
  const sameKind = failed.filter((finding) => finding.code === code).map(({ title }) => `"${title}"`);
  const message =
    worst.id === 'reachable'
      ? `${uri} cannot be checked: ${worst.seen}`
      : `${uri} is not known to be safe for checkpoints: ${sameKind.join(', ')} failed`;
  return new CheckpointError(code, message, { context: { ...context, advice: [worst.advice] } });
}
