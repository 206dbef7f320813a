import type { Call, Command, CommandResult } from '../command.ts';
import { timeout, version } from '../common-options.ts';
import { formatBytes, formatPlural, RETIRED } from '../format.ts';
import { JOB_OPTIONS, jobOfLife } from '../job.ts';
import { jsonSummary } from '../json.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';

export const commit: Command = {
  name: 'commit',
  group: 'Save and restore',
  summary: 'Finish a version whose writers have all delivered',
  description:
    'Any machine can run it; no writer has to be alive. Without --version it takes the highest version that was begun.\n' +
    'It looks once; with --timeout it waits for writers that have not delivered yet.\n' +
    'With --life (and --attempt and --writer) it succeeds only if the checkpoint has the files of this life.',
  operands: 'URI',
  options: [
    version,
    { ...timeout, help: 'how long to wait for writers, such as 30s or 10m, up to 7d; default 0: look once' },
    ...JOB_OPTIONS,
  ],
  examples: [
    'holdfast commit "file://$PWD/pair" --version 1',
    'holdfast commit "file://$PWD/pair" --version 1 --timeout 10m',
  ],
  isSilentWhenQuiet: true,
  isOneDecision: true,
  run: runCommit,
};

/** What has happened to a version since it was committed. */
const STATES = { live: [], retiring: [RETIRED], quarantined: ['quarantined since: it is damaged'] } as const;

async function runCommit(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const given = call.get(version);
  if (given !== undefined) call.subject.version = given;
  const job = jobOfLife(call);
  const summary = await withRun(call, { uri, ...(job && { job }), isPatient: false }, async (manager) => {
    await call.reporter.begin({ verb: 'committed', headline: () => null });
    const timeoutMs = call.get(timeout) ?? 0;
    return expectingRun(call, manager, () =>
      manager.commit({
        version: given,
        timeoutMs,
        signal: call.signal,
        onProgress: call.reporter.onProgress,
      }),
    );
  });
  const size = `${formatBytes(summary.sizeBytes)} in ${formatPlural(summary.fileCount, 'file')}`;
  const state = summary.isLatest ? ['latest'] : STATES[summary.state];
  return {
    text: [`${call.style('green', 'committed')}  version ${summary.version}`, size, ...state].join('   '),
    json: { uri: call.subject.uri ?? null, ...jsonSummary(summary) },
  };
}
