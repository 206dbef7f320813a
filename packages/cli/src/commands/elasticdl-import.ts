import { CheckpointError, type ProgressEvent, type RunManager } from '@holdfast/core/contract';
import type { FoundVersion, ImportAllResult, ImportResult, Place } from '@holdfast/elasticdl';
import type { Call, Command, CommandResult } from '../command.ts';
import { buffer, concurrency, limitRate, meta, metric, version, workers } from '../common-options.ts';
import { sum } from '../elasticdl/model-summary.ts';
import { openFileAt, openVersionAt, withForeignPlace } from '../elasticdl/open-shards.ts';
import { numbering } from '../elasticdl/options.ts';
import { tellSuspicion } from '../elasticdl/suspicion.ts';
import { warnOfSuspect } from '../engine-log.ts';
import { formatBytes, formatCount, formatPlural, printable } from '../format.ts';
import { type JsonObject, jsonId, jsonVersion } from '../json.ts';
import { withRun } from '../open-run.ts';
import { takeOperands } from '../operands.ts';
import { checked, flag, value } from '../option.ts';
import { elapsedAndRate } from '../outcome.ts';
import { usageError } from '../usage-error.ts';
import { pairsToRecord, parseVersion } from '../values.ts';

const all = flag('--all', 'import every complete version, lowest first');
const as = value('--as <v>', 'save it as this version; default: the version in its name', parseVersion);

export const elasticdlImport: Command = {
  name: 'elasticdl import',
  group: 'ElasticDL',
  summary: 'Save what ElasticDL has written as checkpoints of a run, byte for byte',
  description:
    'DIR or URI is a version as ElasticDL writes it, or holds versions: the newest complete one is taken.\n' +
    'FILE is a complete model in one file, such as model_v110.chkpt, as ElasticDL wrote it until November 2019.\n' +
    'Nothing is committed before structure and ids are checked.\n' +
    'It can be repeated: files that are already in the run are not sent again.',
  operands: 'FILE|DIR|URI RUN',
  options: [version, all, as, metric, meta, numbering, concurrency, workers, buffer, limitRate],
  examples: [
    'holdfast elasticdl import ./checkpoint_dir "file://$PWD/run" --metric auc=0.81 --metric loss=0.43',
    'holdfast elasticdl import ./checkpoint_dir "file://$PWD/history" --all',
  ],
  isSilentWhenQuiet: true,
  run: runImport,
};

async function runImport(call: Call): Promise<CommandResult> {
  const [from = '', uri = ''] = takeOperands(call.command, call.operands, ['FILE, DIR or URI', 'RUN']);
  checkOptions(call);
  const beganMs = call.clock.monotonicMs();
  return withForeignPlace(call, from, (place, file) =>
    withRun(call, { uri, isPatient: true }, async (manager) => {
      await call.reporter.begin({ verb: 'saved', headline: (event) => headline(event, call) });
      if (file !== null && call.get(all)) {
        throw usageError('--all needs a directory of versions, and one file was given', [
          'omit --all, or give the directory',
        ]);
      }
      const result = call.get(all)
        ? await importEach(call, place, manager)
        : await importOne(call, { place, file }, manager);
      return describe(call, place.where(''), result, call.clock.monotonicMs() - beganMs);
    }),
  );
}

function checkOptions(call: Call): void {
  const ofOne = [version, as, metric].filter((option) => call.get<unknown>(option) !== undefined);
  if (call.get(all) && ofOne.length > 0) {
    throw usageError(`--all cannot be combined with ${ofOne.map(({ name }) => `--${name}`).join(' and ')}`, [
      'import one version at a time with them',
    ]);
  }
}

async function importEach(call: Call, place: Place, manager: RunManager): Promise<ImportAllResult> {
  const { importAll } = await import('@holdfast/elasticdl');
  return importAll(place, manager, optionsOf(call));
}

async function importOne(
  call: Call,
  { place, file }: { readonly place: Place; readonly file: string | null },
  manager: RunManager,
): Promise<ImportAllResult> {
  const { importCheckpoint } = await import('@holdfast/elasticdl');
  const skipped: ImportAllResult['skipped'][number][] = [];
  const onSkipped = ({ version: newer, folder }: FoundVersion, reason: string) => {
    skipped.push({ version: newer, folder, reason });
  };
  await using set =
    file === null ? await openVersionAt(call, place, onSkipped) : await openFileAt(call, place, file);
  const metrics = checked('InvalidArgument', '--metric', () => pairsToRecord(call.get(metric) ?? []));
  const result = await importCheckpoint(set, manager, { ...optionsOf(call), version: call.get(as), metrics });
  return { imported: [result], skipped };
}

function optionsOf(call: Call) {
  const metadata = checked('InvalidArgument', '--meta', () => pairsToRecord(call.get(meta) ?? []));
  const { signal, reporter } = call;
  return { metadata, numbering: call.get(numbering), signal, onProgress: reporter.onProgress };
}

function headline(event: ProgressEvent, call: Call): string | null {
  if (event.type === 'joined') {
    call.subject.version = event.version;
    return `version ${event.version} → ${call.subject.uri}`;
  }
  if (event.type === 'suspect') warnOfSuspect(event.reason, call.messages);
  return null;
}

function describe(call: Call, from: string, result: ImportAllResult, durationMs: number): CommandResult {
  const { imported, skipped } = result;
  for (const reason of imported.flatMap(({ suspicions }) => suspicions)) tellSuspicion(call, reason);
  for (const note of imported.flatMap(({ notes }) => notes)) call.messages.note(`note: ${printable(note)}`);
  const sizeBytes = sum(imported.filter((each) => !each.wasCommittedBefore).map((each) => each.sizeBytes));
  const json = {
    from,
    uri: call.subject.uri ?? null,
    imported: imported.map(jsonOf),
    skipped: skipped.map((each) => ({
      version: jsonVersion(each.version),
      folder: each.folder,
      reason: each.reason,
    })),
    sizeBytes,
    durationMs: Math.round(durationMs),
  };
  const lines = skipped.map(({ reason }) => `${call.style('yellow', 'skipped')}   ${printable(reason)}`);
  const error = imported.length === 0 ? nothingImported(from, skipped.length) : undefined;
  if (error !== undefined) return { text: lines.join('\n'), json, error };
  const [first] = imported as [ImportResult];
  const timing = elapsedAndRate(durationMs, sizeBytes);
  if (call.get(all))
    lines.push(...imported.map((each) => `${call.style('green', 'saved')}     ${savedText(each)}`));
  const what = call.get(all) ? totalText(result, sizeBytes) : [savedText(first)];
  const done = [`${call.style('green', 'imported')}  ${what[0]}`, ...timing, ...what.slice(1)].join('   ');
  return { text: [...lines, done].join('\n'), json };
}

function nothingImported(from: string, skippedCount: number): CheckpointError {
  if (skippedCount > 0) {
    const context = { path: from, wholeVersion: null };
    return new CheckpointError('Corrupt', `no version in ${from} could be imported`, { context });
  }
  return new CheckpointError('NotFound', `${from} holds no version directory`, {
    context: { path: from, advice: ['omit --all to import a single version'] },
  });
}

/** The text before and after the elapsed time. */
function totalText({ imported, skipped }: ImportAllResult, sizeBytes: number): [string, ...string[]] {
  const presentCount = imported.filter(({ wasCommittedBefore }) => wasCommittedBefore).length;
  const count = imported.length - presentCount;
  return [
    `${formatPlural(count, 'version')}${count > 0 ? `   ${formatBytes(sizeBytes)}` : ''}`,
    ...(presentCount > 0 ? [`${formatCount(presentCount)} already there`] : []),
    ...(skipped.length > 0 ? [`${formatCount(skipped.length)} skipped`] : []),
  ];
}

function savedText(result: ImportResult): string {
  const head = `version ${result.version}   ${formatBytes(result.sizeBytes)} in ${formatPlural(result.fileCount, 'file')}`;
  if (!result.wasCommittedBefore) return head;
  return `${head}   already there${result.isAnnotated ? '; its metrics and metadata are recorded now' : ''}`;
}

function jsonOf(result: ImportResult): JsonObject {
  return {
    version: jsonVersion(result.version),
    id: jsonId(result.id),
    sizeBytes: result.sizeBytes,
    fileCount: result.fileCount,
    modelVersion: result.modelVersion,
    wasCommittedBefore: result.wasCommittedBefore,
    isAnnotated: result.isAnnotated,
    notes: result.notes,
    suspicions: result.suspicions,
  };
}
