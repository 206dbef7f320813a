import { systemRandom } from '@holdfast/core/contract';
import {
  type Certificate,
  certificateError,
  certificateJson,
  certificateVerdict,
} from '../certify/certificate.ts';
import type { CertifyOptions } from '../certify/certify-store.ts';
import { groupText, promiseText, verdictText } from '../certify/certify-text.ts';
import type { CheckResult } from '../certify/suite.ts';
import type { Call, Command, CommandResult } from '../command.ts';
import { quiet, timeout as timeoutOption, verbose } from '../common-options.ts';
import type { Finding } from '../doctor/finding.ts';
import { findingText, toDoText } from '../doctor/finding-text.ts';
import { jsonFinding } from '../doctor/json-finding.ts';
import { watchChecks } from '../doctor/watch-checks.ts';
import { printable } from '../format.ts';
import { takeUriFirst } from '../operands.ts';
import { flag, value } from '../option.ts';
import { assertWritable, type TextFile, writeTextFile } from '../text-file.ts';
import { parsePath } from '../values.ts';

const TIMEOUT_MS = 10 * 60_000;

const output = value('--output <file>', 'write the certificate to this file', parsePath);
const replace = flag('--replace', 'replace the file if it exists');
const timeout = { ...timeoutOption, help: 'time limit of each check, such as 30s or 10m; default 10m' };

export const certify: Command = {
  name: 'certify',
  group: 'Trust',
  summary: 'Test a store against the full contract, and write a certificate',
  description:
    'Runs the conformance suite of Holdfast on the store itself, below a prefix of ' +
    'its own (certify-…/), which it removes at the end. It neither reads nor changes ' +
    'other objects. This takes minutes: some 6,000 requests and up to 400 MiB.\n' +
    '`holdfast doctor` is a short check that explains its findings.\n' +
    'Exit status 2: the store breaks a promise; 8: a permission is missing; 75: the ' +
    'store could not be reached.',
  operands: 'URI',
  options: [output, replace, timeout],
  examples: [
    'holdfast certify "file://$PWD/run"',
    'holdfast certify "file://$PWD/run" --output ./certificate.json --quiet',
  ],
  isSilentWhenQuiet: true,
  run: runCertify,
};

async function runCertify(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  // The engine is loaded here, so that `--help` and `--version` do not wait for it.
  const { openStore } = await import('@holdfast/stores');
  const { certifyStore, PROMISE_COUNT } = await import('../certify/certify-store.ts');
  const file = fileOf(call);
  if (file !== null) await assertWritable(file);
  const store = await openStore(uri, call.env); // An invalid URI is an error, not a finding.
  call.subject.uri = uri;
  await store.close();
  const prefix = `certify-${systemRandom.hex(16)}/`;
  call.messages.note(`certifying ${call.subject.uri}\n  below ${prefix}, which is removed at the end`);
  const certificate = await certifyStore(prefix, {
    open: () => openStore(uri, call.env),
    facts: {
      holdfastVersion: call.programVersion,
      uri: call.subject.uri,
      capabilities: store.capabilities,
    },
    clock: call.clock,
    random: systemRandom,
    timeoutMs: call.get(timeout) ?? TIMEOUT_MS,
    signal: call.signal,
    ...(await showing(call, PROMISE_COUNT)),
  });
  return conclude(certificate, file, call);
}

function fileOf(call: Call): TextFile | null {
  const path = call.get(output);
  return path === undefined ? null : { path, replaces: call.get(replace) ?? false };
}

/** Longer names are truncated. */
const NAME_LENGTH_MAX = 44;

/**
 * Shows progress: a line for each finding, each group, and each failed check; with `--verbose` for
 * every check.
 */
async function showing(
  call: Call,
  promiseCount: number,
): Promise<Pick<CertifyOptions, 'onStart' | 'onFinding' | 'onResult'>> {
  const current = await watchChecks(call);
  const group: CheckResult[] = [];
  let index = 0;
  return {
    onStart: (name, at) => {
      const short = name.length > NAME_LENGTH_MAX ? `${name.slice(0, NAME_LENGTH_MAX - 1)}…` : name;
      const title = at === null ? short : `${at + 1} of ${promiseCount}: ${short}`;
      current.check = { title, beganMs: call.clock.monotonicMs() };
    },
    onFinding: (finding) => {
      current.check = null;
      call.reporter.event({ type: 'check', ...jsonFinding(finding) });
      if (finding.status !== 'not-run') call.print(findingText(finding, call.style));
    },
    onResult: (result) => {
      current.check = null;
      index += 1;
      call.reporter.event({ type: 'promise', ...result, durationMs: Math.round(result.durationMs) });
      const isNewGroup = group.length > 0 && group[0]?.group !== result.group;
      if (isNewGroup) call.print(groupText(group.splice(0), call.style));
      if (result.status === 'failed' || call.get(verbose)) call.print(promiseText(result, call.style));
      group.push(result);
      if (index === promiseCount) call.print(groupText(group, call.style));
    },
  };
}

/** Writes the certificate whatever its verdict. */
async function conclude(certificate: Certificate, file: TextFile | null, call: Call): Promise<CommandResult> {
  const json = certificateJson(certificate);
  if (file !== null) await writeTextFile(file, `${JSON.stringify(json, null, 2)}\n`);
  const verdict = certificateVerdict(certificate);
  const error = certificateError(certificate);
  const unprinted = call.get(quiet) ? failures(certificate, call) : [];
  const toDo = toDoText(certificate.findings, call.style);
  const last = verdictText(certificate, verdict, call.style);
  const where = file === null ? [] : [`certificate in ${printable(file.path)}`];
  return {
    text: [...unprinted, ...toDo, last, ...where].join('\n'),
    json,
    ...(error === null ? {} : { error }),
  };
}

function failures({ findings, checks }: Certificate, { style }: Call): string[] {
  return [
    ...findings
      .filter(({ status }: Finding) => status === 'failed' || status === 'degraded')
      .map((finding) => findingText(finding, style)),
    ...checks.filter(({ status }) => status === 'failed').map((result) => promiseText(result, style)),
  ];
}
