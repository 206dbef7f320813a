import type { CheckpointId, ProgressEvent, RunManager } from '@holdfast/core/contract';
import type { ExportOptions, ExportResult, ShardSet } from '@holdfast/elasticdl';
import type { Call, Command, CommandResult } from '../command.ts';
import { buffer, checkpointOrLatest } from '../common-options.ts';
import { consistencyText, jsonWriters } from '../consistency-text.ts';
import { withShards } from '../elasticdl/open-shards.ts';
import { parseMetricWithMode, parseRowCount, parseTableRows } from '../elasticdl/option-values.ts';
import { numbering } from '../elasticdl/options.ts';
import { suspicionTeller } from '../elasticdl/suspicion.ts';
import { formatBytes, formatPlural, printable } from '../format.ts';
import { jsonVersion } from '../json.ts';
import { nothingToLoad } from '../open-run.ts';
import { takeOperands } from '../operands.ts';
import { checked, flag, value, valueList } from '../option.ts';
import { elapsedAndRate } from '../outcome.ts';
import { usageError } from '../usage-error.ts';
import { pairsToRecord } from '../values.ts';

const dense = valueList(
  '--dense <table=rows>',
  'write this table as one tensor of ROWS rows, by id; rows of missing ids are zero; may be repeated',
  parseTableRows,
);
const denseAll = value(
  '--dense-all <rows>',
  'write every other table as one tensor too; highest: as many rows as the highest id needs',
  parseRowCount,
);
const keepSlots = flag('--keep-slots', "keep the tables that hold an optimizer's state for another table");
const best = value(
  '--best <name:min|:max>',
  'take the checkpoint of the run that is best by this metric, such as auc:max; instead of --version',
  parseMetricWithMode,
);
const replace = flag('--replace', 'replace the file if it exists');

export const elasticdlExport: Command = {
  name: 'elasticdl export',
  group: 'ElasticDL',
  summary: 'Write all shards of a checkpoint of ElasticDL as one safetensors file',
  description:
    'FROM is a directory, a URI or a complete model in one file, as for inspect. A variable becomes a tensor of its name.\n' +
    'A table becomes two tensors, TABLE.ids and TABLE.values, row by row, unless --dense names it.\n' +
    'OUT.json beside it describes the tables, and so does the metadata of the file itself.\n' +
    '--best chooses as `holdfast elasticdl best` does, among the live checkpoints that a restart could load.\n' +
    'The file appears complete or not at all. An existing file is refused without --replace.',
  operands: 'FROM OUT.safetensors',
  options: [checkpointOrLatest, best, dense, denseAll, keepSlots, replace, numbering, buffer],
  examples: [
    'holdfast elasticdl export ./checkpoint_dir model.safetensors',
    'holdfast elasticdl export "file://$PWD/run" dense.safetensors --version 100 --dense embedding=300000',
    'holdfast elasticdl export "file://$PWD/run" best.safetensors --best auc:max',
  ],
  isSilentWhenQuiet: true,
  run: runExport,
};

async function runExport(call: Call): Promise<CommandResult> {
  const [from = '', out = ''] = takeOperands(call.command, call.operands, ['FROM', 'OUT.safetensors']);
  if (!out.endsWith('.safetensors')) {
    throw usageError(`${out} does not end in .safetensors`, [
      'the description of the tables goes into a file beside it, which ends in .json',
    ]);
  }
  call.subject.path = out;
  const beganMs = call.clock.monotonicMs();
  return withShards(call, from, { isPatient: true, choose: chooseBest(call) }, async (set) => {
    const { exportSafetensors } = await import('@holdfast/elasticdl');
    await call.reporter.begin({ verb: 'exported', headline: (event) => headline(event, set, out) });
    const { suspicions, onSuspicion } = suspicionTeller(call);
    const result = await exportSafetensors(set, out, { ...optionsOf(call), onSuspicion });
    return describe(call, set, { ...result, suspicions }, call.clock.monotonicMs() - beganMs);
  });
}

/** `undefined`: no `--best`. */
function chooseBest(call: Call): ((manager: RunManager) => Promise<CheckpointId>) | undefined {
  const by = call.get(best);
  if (by === undefined) return undefined;
  if (call.get(checkpointOrLatest) !== undefined) {
    throw usageError('--best and --version cannot be combined', ['give one of them']);
  }
  return async (manager) => {
    const { bestCheckpoint } = await import('@holdfast/elasticdl');
    const found = await bestCheckpoint(manager, by, call);
    if (found === null) throw await nothingToLoad(manager, call.subject.uri as string, call);
    return found.id;
  };
}

function optionsOf(call: Call): ExportOptions {
  const rowCount = call.get(denseAll);
  return {
    tables: rowCount === undefined ? 'sparse' : 'dense',
    rowCount,
    rowCounts: checked('InvalidArgument', '--dense', () => pairsToRecord(call.get(dense) ?? [])),
    keepSlots: call.get(keepSlots),
    replace: call.get(replace),
    numbering: call.get(numbering),
    bufferBytes: call.get(buffer),
    signal: call.signal,
    onProgress: call.reporter.onProgress,
  };
}

function headline(event: ProgressEvent, set: ShardSet, out: string): string | null {
  if (event.type !== 'planned') return null;
  const what = `${formatPlural(set.shards.length, 'shard')}   ${formatBytes(event.sizeBytes)}`;
  return `${printable(set.where)} → ${printable(out)}   ${what}`;
}

interface Exported extends ExportResult {
  readonly suspicions: readonly string[];
}

function describe(call: Call, set: ShardSet, result: Exported, durationMs: number): CommandResult {
  const { path, jsonPath, sizeBytes, tensors, dropped, suspicions } = result;
  const version = set.version ?? BigInt(result.version);
  const writers = set.writers ?? [];
  const consistency = consistencyText({ writers });
  const done = [
    `${call.style('green', 'exported')}  version ${version}`,
    `${formatBytes(sizeBytes)} in ${formatPlural(tensors.length, 'tensor')}`,
    ...elapsedAndRate(durationMs, sizeBytes),
    `in ${printable(call.subject.path as string)}`,
  ];
  return {
    text: [
      done.join('   '),
      ...(consistency === null ? [] : [`  consistency ${consistency}`]),
      ...droppedText(dropped),
    ].join('\n'),
    json: {
      from: set.where,
      path,
      jsonPath,
      version: jsonVersion(version),
      modelVersion: result.version,
      writers: jsonWriters({ writers }),
      sizeBytes,
      tensors: tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape })),
      dropped,
      suspicions,
      durationMs: Math.round(durationMs),
    },
  };
}

function droppedText(names: readonly string[]): string[] {
  if (names.length === 0) return [];
  const what = formatPlural(names.length, 'table');
  return [`  left out ${what} of an optimizer: ${names.map(printable).join(', ')} (--keep-slots keeps them)`];
}
