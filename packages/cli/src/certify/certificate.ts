/** The result of `certify`: a stable format, documented in docs/cli.md. Pure. */

import { CheckpointError, type ErrorCode, type StoreCapabilities } from '@holdfast/core/contract';
import type { Finding } from '../doctor/finding.ts';
import { jsonFinding } from '../doctor/json-finding.ts';
import { errorOf as accessErrorOf } from '../doctor/verdict.ts';
import { formatPlural } from '../format.ts';
import { type JsonObject, toJson } from '../json.ts';
import type { CheckResult } from './suite.ts';

/** Increased when a field is removed or changes its meaning. */
const FORMAT_VERSION = 1;

/** `unknown`: something could not be tested. */
export type CertificateVerdict = 'certified' | 'refused' | 'unknown';

export interface Certificate {
  readonly holdfastVersion: string;
  /** Without credentials. */
  readonly uri: string;
  readonly startedAtMs: number;
  readonly durationMs: number;
  readonly prefix: string;
  readonly seed: number;
  readonly capabilities: StoreCapabilities;
  /** Findings on access, clock and settings, as in `doctor`. */
  readonly findings: readonly Finding[];
  /** One for each check of the suite. */
  readonly checks: readonly CheckResult[];
}

export function certificateVerdict({ findings, checks }: Certificate): CertificateVerdict {
  const failed = [...findings, ...checks].filter(({ status }) => status === 'failed');
  if (failed.some(({ code }) => code === 'Unsupported')) return 'refused';
  return failed.length > 0 || checks.some(({ status }) => status === 'not-run') ? 'unknown' : 'certified';
}

/** Error with which the command ends; `null` if the store is certified. */
export function certificateError(certificate: Certificate): CheckpointError | null {
  const { uri, findings, checks } = certificate;
  const ofAccess = accessErrorOf(findings, uri);
  if (ofAccess !== null) return ofAccess;
  const failed = checks.filter(({ status }) => status === 'failed');
  const broken = failed.filter(({ code }) => code === 'Unsupported');
  const context = { store: uri, failed: (broken.length > 0 ? broken : failed).map(({ name }) => name) };
  if (broken.length > 0) {
    const how = `it breaks ${broken.length} of ${formatPlural(checks.length, 'promise')} that checkpoints need`;
    const advice = [
      'use another store, or have this one corrected; `holdfast doctor` explains the consequences',
    ];
    return new CheckpointError('Unsupported', `${uri} is not certified: ${how}`, {
      context: { ...context, advice },
    });
  }
  const first = failed[0];
  if (first === undefined) return null;
  const how = `${failed.length} of ${formatPlural(checks.length, 'promise')} could not be checked: ${first.seen}`;
  return new CheckpointError(first.code as ErrorCode, `${uri} is not certified: ${how}`, { context });
}

export function certificateJson(certificate: Certificate): JsonObject {
  const { findings, checks, startedAtMs, durationMs, capabilities, ...head } = certificate;
  const clock = findings.find(({ id }) => id === 'clock')?.figures;
  const count = (status: CheckResult['status']) => checks.filter((check) => check.status === status).length;
  return {
    certificate: 'holdfast-store',
    formatVersion: FORMAT_VERSION,
    ...head,
    verdict: certificateVerdict(certificate),
    startedAt: new Date(startedAtMs).toISOString(),
    durationMs: Math.round(durationMs),
    capabilities: toJson(capabilities),
    clock: clock?.['skewMs'] === undefined ? null : { ...clock },
    findings: findings.map(jsonFinding),
    passedCount: count('passed'),
    failedCount: count('failed'),
    notRunCount: count('not-run'),
    checks: checks.map((check) => ({ ...check, durationMs: Math.round(check.durationMs) })),
  };
}
