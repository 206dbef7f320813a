import type { ExportTensorsResult } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import {
  buffer,
  checkpointOrLatest,
  concurrency,
  foundText,
  givenVersion,
  workers,
} from '../common-options.ts';
import { formatBytes, formatPlural } from '../format.ts';
import { jsonId, jsonVersion } from '../json.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { value, valueList } from '../option.ts';
import { elapsedAndRate } from '../outcome.ts';
import { confirmedReplace, fillingHeadline, REPLACE_OPTIONS } from '../replace-option.ts';
import { parseChoice, parseGlob, sizeBetween } from '../values.ts';

const prefix = value(
  '--prefix <text>',
  'only tensors whose names begin with TEXT, such as "model."; their new names are without it',
  (text) => text,
);
const from = valueList(
  '--from <glob>',
  'only tensors in files that match; default: all *.safetensors and *.distcp; may be repeated',
  parseGlob,
);
const also = valueList(
  '--also <glob>',
  'copy these files too, such as config.json or "tokenizer*"; may be repeated',
  parseGlob,
);
const LAYOUTS = ['safetensors', 'distcp'] as const;
const layout = value(
  '--layout <name>',
  'safetensors: for Hugging Face libraries; distcp: for torch.distributed.checkpoint; default safetensors',
  parseChoice(LAYOUTS),
  LAYOUTS,
);
const fileSize = value(
  '--file-size <size>',
  'begin a new file when one has tensors of this size; default 5GiB',
  sizeBetween(1, 1024 ** 5),
);

export const exportCommand: Command = {
  name: 'export',
  group: 'Save and restore',
  summary: 'Write the tensors of a checkpoint as files that Hugging Face libraries or PyTorch load',
  description:
    'Tensors that ranks have saved in parts, as distributed checkpoints of PyTorch are, are joined; types and bytes stay. ' +
    'Reads *.safetensors files, and *.distcp files with their .metadata, and writes model.safetensors, or model-00001-of-0000N.safetensors and their index. ' +
    'With --layout distcp it writes __0_0.distcp and so on, and .metadata. ' +
    'Every byte is verified, and DIR appears complete or not at all, as for restore. ' +
    'The tables of ElasticDL: holdfast elasticdl export.',
  operands: 'URI DIR',
  options: [
    ...[checkpointOrLatest, layout, prefix, from, also, fileSize],
    ...[...REPLACE_OPTIONS, concurrency, workers, buffer],
  ],
  examples: [
    'holdfast export "file://$PWD/run" ./model',
    'holdfast export "file://$PWD/run" ./model --version 1200 --prefix model. --also config.json',
    'holdfast export "file://$PWD/run" ./weights --layout distcp',
  ],
  isSilentWhenQuiet: true,
  run: runExport,
};

async function runExport(call: Call): Promise<CommandResult> {
  const { uri, rest } = takeUriFirst(call.command, call.operands, call.env, ['DIR']);
  const directory = rest[0] as string;
  call.subject.path = directory;
  const beganMs = call.clock.monotonicMs();
  const result = await withRun(call, { uri, isPatient: true }, async (manager) => {
    const replace = await confirmedReplace(call, directory);
    await call.reporter.begin({ verb: 'exported', headline: (event) => fillingHeadline(event, call) });
    return expectingRun(call, manager, () =>
      manager.admin.exportTensors({
        version: givenVersion(call),
        to: directory,
        replace,
        layout: call.get(layout),
        prefix: call.get(prefix),
        from: call.get(from),
        also: call.get(also),
        fileBytesMax: call.get(fileSize),
        signal: call.signal,
        onProgress: call.reporter.onProgress,
      }),
    );
  });
  return describe(result, call, call.clock.monotonicMs() - beganMs);
}

function describe(result: ExportTensorsResult, call: Call, durationMs: number): CommandResult {
  const { id, tensorCount, sizeBytes, files } = result;
  const done = [
    `${call.style('green', 'exported')}  version ${foundText(call.get(checkpointOrLatest), id)}`,
    formatPlural(tensorCount, 'tensor'),
    `${formatBytes(sizeBytes)} in ${formatPlural(files.length, 'file')}`,
    ...elapsedAndRate(durationMs, sizeBytes),
    'every byte verified',
  ];
  return {
    text: done.join('   '),
    json: {
      uri: call.subject.uri ?? null,
      directory: call.subject.path ?? null,
      version: jsonVersion(id.version),
      id: jsonId(id),
      tensorCount,
      sizeBytes,
      files: files.map(({ name, sizeBytes }) => ({ name, sizeBytes })),
      durationMs: Math.round(durationMs),
    },
  };
}
