import { systemRandom } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { quiet, timeout as timeoutOption } from '../common-options.ts';
import type { Finding } from '../doctor/finding.ts';
import { findingText, notRunText, toDoText } from '../doctor/finding-text.ts';
import { jsonFinding } from '../doctor/json-finding.ts';
import { errorOf, type Verdict, verdictOf } from '../doctor/verdict.ts';
import { watchChecks } from '../doctor/watch-checks.ts';
import { formatDuration, formatPlural } from '../format.ts';
import { takeUriFirst } from '../operands.ts';
import { flag } from '../option.ts';

const TIMEOUT_MS = 30_000;

const quick = flag('--quick', 'skip the throughput check, which takes some seconds and up to 256 MiB');
const timeout = { ...timeoutOption, help: 'time limit of each check, such as 30s or 2m; default 30s' };

export const doctor: Command = {
  name: 'doctor',
  group: 'Trust',
  summary: 'Check whether a store can be trusted with checkpoints, and how fast it is',
  description:
    'Checks the guarantees that commits need, permissions, settings, clock and speed, below ' +
    'a prefix of its own (doctor-…/), which it removes at the end. It neither reads nor ' +
    'changes other objects.\n' +
    'Exit status 2: the store is not safe, do not use it; 8: a permission is missing; ' +
    '75: the store could not be reached.',
  operands: 'URI',
  options: [quick, timeout],
  examples: ['holdfast doctor "file://$PWD/run"', 'holdfast doctor "file://$PWD/run" --quick --json'],
  isSilentWhenQuiet: true,
  run: runDoctor,
};

async function runDoctor(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  // The engine is loaded here, so that `--help` and `--version` do not wait for it.
  const { openStore } = await import('@holdfast/stores');
  const { examine } = await import('../doctor/examine.ts');
  const { CHECKS } = await import('../doctor/checks.ts');
  await (await openStore(uri, call.env)).close(); // An invalid URI is an error, not a finding.
  call.subject.uri = uri;
  const prefix = `doctor-${systemRandom.hex(16)}/`;
  call.messages.note(`checking ${uri}\n  below ${prefix}, which is removed at the end`);
  const beganMs = call.clock.monotonicMs();
  const current = await watchChecks(call);
  const { findings, repeatCount } = await examine({
    checks: CHECKS.filter(({ isLong }) => !(isLong && call.get(quick))),
    open: () => openStore(uri, call.env),
    clock: call.clock,
    random: systemRandom,
    prefix,
    timeoutMs: call.get(timeout) ?? TIMEOUT_MS,
    signal: call.signal,
    onStart: (check) => {
      current.check = { title: check.title, beganMs: call.clock.monotonicMs() };
    },
    onFinding: (finding) => {
      current.check = null;
      call.reporter.event({ type: 'check', ...jsonFinding(finding) });
      if (finding.status !== 'not-run') call.print(findingText(finding, call.style));
    },
  });
  const durationMs = call.clock.monotonicMs() - beganMs;
  const verdict = verdictOf(findings);
  const error = errorOf(findings, uri);
  return {
    text: textOf(findings, { verdict, repeatCount, durationMs }, call),
    json: {
      uri,
      verdict,
      prefix,
      checks: findings.map(jsonFinding),
      repeatCount,
      durationMs: Math.round(durationMs),
    },
    ...(error === null ? {} : { error }),
  };
}

const IN_WORDS: Readonly<Record<Verdict, string>> = {
  safe: 'safe for checkpoints',
  unsafe: 'not safe for checkpoints',
  unknown: 'not known to be safe for checkpoints',
};

/** The part of the text that was not printed on the way. */
function textOf(
  findings: readonly Finding[],
  { verdict, repeatCount, durationMs }: { verdict: Verdict; repeatCount: number; durationMs: number },
  call: Call,
): string {
  const count = (status: Finding['status']) => findings.filter((finding) => finding.status === status).length;
  const [failed, degraded] = [count('failed'), count('degraded')];
  const checked = findings.length - count('not-run');
  const parts = [
    call.style(verdict === 'safe' ? 'green' : 'red', IN_WORDS[verdict]),
    formatPlural(checked, 'check'),
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(degraded > 0 ? [`${degraded} degraded`] : []),
    ...(repeatCount > 0 ? [`${formatPlural(repeatCount, 'request')} repeated`] : []),
    formatDuration(durationMs),
  ];
  const unprinted = call.get(quiet)
    ? findings.filter(({ status }) => status === 'failed' || status === 'degraded')
    : [];
  return [
    ...unprinted.map((finding) => findingText(finding, call.style)),
    ...notRunText(findings, call.style),
    ...toDoText(findings, call.style),
    parts.join('   '),
  ].join('\n');
}
