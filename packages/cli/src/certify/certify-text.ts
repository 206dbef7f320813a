/** Text about the suite for people: a line for each group, and what failed. Pure. */

import type { Finding } from '../doctor/finding.ts';
import { findingText } from '../doctor/finding-text.ts';
import { formatDuration, formatPlural } from '../format.ts';
import type { Style } from '../style.ts';
import type { Certificate, CertificateVerdict } from './certificate.ts';
import type { CheckResult } from './suite.ts';

/** A line about a single check. */
export function promiseText({ status, group, name, seen }: CheckResult, style: Style): string {
  const shown = status === 'passed' ? 'ok' : status;
  const meaning = status === 'failed' ? withoutLongWords(seen) : '';
  return findingText({ status: shown, title: group, seen: name, meaning }, style);
}

/** Shortens keys of a thousand characters, which people cannot use. */
function withoutLongWords(text: string): string {
  return text.replace(/\S{61,}/g, (word) => `${word.slice(0, 40)}…${word.slice(-16)}`);
}

/** A line about all checks of one group, once they have run. */
export function groupText(results: readonly CheckResult[], style: Style): string {
  const count = (status: CheckResult['status']) =>
    results.filter((result) => result.status === status).length;
  const [failed, notRun] = [count('failed'), count('not-run')];
  const tookMs = results.reduce((sum, { durationMs }) => sum + durationMs, 0);
  const parts = [
    formatPlural(results.length, 'promise'),
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(notRun > 0 ? [`${notRun} not run`] : []),
    formatDuration(tookMs),
  ];
  const status = failed > 0 ? 'failed' : notRun === results.length ? 'not-run' : 'ok';
  return findingText({ status, title: results[0]?.group ?? '', seen: parts.join('   '), meaning: '' }, style);
}

const IN_WORDS: Readonly<Record<CertificateVerdict, string>> = {
  certified: 'certified',
  refused: 'not certified',
  unknown: 'cannot be certified',
};

/** The last line. */
export function verdictText(
  { findings, checks, durationMs }: Certificate,
  verdict: CertificateVerdict,
  style: Style,
): string {
  const count = (status: Finding['status']) =>
    [...findings, ...checks].filter((one) => one.status === status).length;
  const [failed, degraded] = [count('failed'), count('degraded')];
  const notRun = checks.filter((check) => check.status === 'not-run').length;
  return [
    style(verdict === 'certified' ? 'green' : 'red', IN_WORDS[verdict]),
    notRun === checks.length ? 'no promise was checked' : formatPlural(checks.length, 'promise'),
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(degraded > 0 ? [`${degraded} degraded`] : []),
    ...(notRun > 0 && notRun < checks.length ? [`${notRun} not run`] : []),
    formatDuration(durationMs),
  ].join('   ');
}
