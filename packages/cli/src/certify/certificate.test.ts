import { describe, expect, it } from 'vitest';
import type { Finding } from '../doctor/finding.ts';
import { plainStyle } from '../style.ts';
import { type Certificate, certificateError, certificateJson, certificateVerdict } from './certificate.ts';
import { groupText, promiseText, verdictText } from './certify-text.ts';
import type { CheckResult } from './suite.ts';

const result = (rest: Partial<CheckResult>): CheckResult => ({
  group: 'races',
  name: 'create: one wins',
  status: 'passed',
  durationMs: 12.4,
  attempts: 1,
  seen: '',
  code: null,
  ...rest,
});
const finding = (rest: Partial<Finding>): Finding => ({
  id: 'may-list',
  title: 'may list',
  status: 'ok',
  seen: '',
  meaning: '',
  advice: '',
  code: null,
  because: null,
  durationMs: 1,
  figures: {},
  ...rest,
});
const broken = result({ status: 'failed', seen: 'winners: expected 1, found 2', code: 'Unsupported' });
const busy = result({ status: 'failed', seen: 'HTTP 503', code: 'Unavailable', attempts: 3 });
const notRun = result({ status: 'not-run', seen: 'the store could not be reached any more', attempts: 0 });

function certificate(checks: CheckResult[], findings: Finding[] = [finding({})]): Certificate {
  return {
    holdfastVersion: '1.2.3',
    uri: 's3://bucket/run',
    startedAtMs: 1_800_000_000_000,
    durationMs: 1234.5,
    prefix: 'certify-1/',
    seed: 7,
    capabilities: {
      maxCreateBytes: 1,
      minPartBytes: 1,
      maxPartBytes: 1,
      maxParts: 1,
      maxDeleteKeys: 1,
      maxListKeys: 1,
      verifiesChecksums: true,
      resumesUploads: true,
      alignmentBytes: 1,
      preferredConcurrency: 1,
      preferredPartConcurrency: 1,
    },
    findings,
    checks,
  };
}

describe('the verdict', () => {
  const denied = finding({ status: 'failed', code: 'Denied', seen: 'not permitted' });
  it.each<[string, Certificate, string, string | null, number]>([
    ['all kept', certificate([result({}), result({})]), 'certified', null, 0],
    ['one broken, others not looked at', certificate([broken, busy, notRun]), 'refused', 'Unsupported', 2],
    ['not looked at', certificate([result({}), busy, notRun]), 'unknown', 'Unavailable', 75],
    ['a permission is missing', certificate([notRun], [denied]), 'unknown', 'Denied', 8],
    [
      'a setting of concern changes nothing',
      certificate([result({})], [finding({ id: 'lifecycle', status: 'degraded' })]),
      'certified',
      null,
      0,
    ],
  ])('%s', (_, given, verdict, code, exitCode) => {
    expect(certificateVerdict(given)).toBe(verdict);
    const error = certificateError(given);
    expect(error?.code ?? null).toBe(code);
    expect(error?.exitCode ?? 0).toBe(exitCode);
  });

  it('the error counts and names what is broken', () => {
    const error = certificateError(certificate([result({}), broken, busy]));
    expect(error?.message).toBe(
      's3://bucket/run is not certified: it breaks 1 of 3 promises that checkpoints need',
    );
    expect(error?.context).toMatchObject({ store: 's3://bucket/run', failed: ['create: one wins'] });
    expect(certificateError(certificate([busy]))?.message).toContain('could not be checked: HTTP 503');
  });
});

describe('the certificate', () => {
  it('as JSON: all fields, whole milliseconds, figures of the clock', () => {
    const clock = finding({ id: 'clock', title: 'clock', figures: { skewMs: 3, errorMs: 5 } });
    const json = certificateJson(certificate([result({}), broken, notRun], [clock]));
    expect(json).toMatchObject({
      certificate: 'holdfast-store',
      formatVersion: 1,
      holdfastVersion: '1.2.3',
      uri: 's3://bucket/run',
      verdict: 'refused',
      prefix: 'certify-1/',
      seed: 7,
      startedAt: '2027-01-15T08:00:00.000Z',
      durationMs: 1235,
      clock: { skewMs: 3, errorMs: 5 },
      passedCount: 1,
      failedCount: 1,
      notRunCount: 1,
    });
    expect(json['capabilities']).toMatchObject({ verifiesChecksums: true });
    expect(json['checks']).toContainEqual({
      group: 'races',
      name: 'create: one wins',
      status: 'failed',
      durationMs: 12,
      attempts: 1,
      seen: 'winners: expected 1, found 2',
      code: 'Unsupported',
    });
    expect(JSON.parse(JSON.stringify(json))).toEqual(json);
  });

  it('clocks that could not be compared are null', () => {
    expect(certificateJson(certificate([]))['clock']).toBeNull();
  });
});

describe('for people', () => {
  it('a broken promise says what was promised, expected and found, within 80 columns', () => {
    const long = {
      ...broken,
      name: `create: ${'word '.repeat(40).trim()}`,
      seen: 'expected '.repeat(30).trim(),
    };
    for (const line of promiseText(long, plainStyle).split('\n')) expect(line.length).toBeLessThan(80);
    const key = { ...broken, seen: `object a/${'s'.repeat(1000)} is missing` };
    expect(promiseText(key, plainStyle)).toMatch(/^ {10}object a\/s+…s+ is\s+missing$/m);
    expect(promiseText(broken, plainStyle)).toBe(
      'failed    races              create: one wins\n          winners: expected 1, found 2',
    );
  });

  it('a group is one line', () => {
    expect(groupText([result({}), result({})], plainStyle)).toBe(
      'ok        races              2 promises   25 ms',
    );
    expect(groupText([result({}), broken, notRun], plainStyle)).toBe(
      'failed    races              3 promises   1 failed   1 not run   37 ms',
    );
    expect(groupText([notRun], plainStyle)).toMatch(/^not run {3}races/);
  });

  it('the last line has the verdict first', () => {
    const text = (given: Certificate) => verdictText(given, certificateVerdict(given), plainStyle);
    expect(text(certificate([result({})]))).toBe('certified   1 promise   1.2 s');
    const denied = finding({ status: 'failed', code: 'Denied' });
    const missing = finding({ status: 'not-run' });
    expect(text(certificate([notRun, notRun], [denied, missing]))).toBe(
      'cannot be certified   no promise was checked   1 failed   1.2 s',
    );
    expect(text(certificate([broken, result({})]))).toBe('not certified   2 promises   1 failed   1.2 s');
    expect(text(certificate([busy, notRun]))).toBe(
      'cannot be certified   2 promises   1 failed   1 not run   1.2 s',
    );
  });
});
