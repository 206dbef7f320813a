import type { CheckpointReference, DiffResult, FileDiff } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { buffer, concurrency, workers } from '../common-options.ts';
import { diffText } from '../diff-text.ts';
import { formatBytes, formatPlural } from '../format.ts';
import { type JsonObject, jsonId, toJson } from '../json.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { checked, flag } from '../option.ts';
import { parseReferenceOrLatest } from '../values.ts';

const tensors = flag(
  '--tensors',
  'also compare the bytes of each tensor, which reads all of every file that differs',
);

export const diff: Command = {
  name: 'diff',
  group: 'Look',
  summary: 'Show how two versions differ: by file, and by tensor in safetensors',
  description:
    'A and B are versions (V@L: version V of lineage L), or the word latest. Files are compared by the sizes and checksums ' +
    'in their records, without reading them. If *.safetensors files differ, their headers show which tensors were added, removed or reshaped.',
  operands: 'URI A B',
  options: [tensors, concurrency, workers, buffer],
  examples: [
    'holdfast diff "file://$PWD/run" 1200 latest',
    'holdfast diff "file://$PWD/run" 1200 latest --tensors --json',
  ],
  run: runDiff,
};

async function runDiff(call: Call): Promise<CommandResult> {
  const { uri, rest } = takeUriFirst(call.command, call.operands, call.env, ['A', 'B']);
  const [a, b] = ['A', 'B'].map((name, index) =>
    checked('InvalidArgument', name, () => parseReferenceOrLatest(rest[index] as string)),
  ) as [CheckpointReference | 'latest', CheckpointReference | 'latest'];
  const { signal } = call;
  const { onProgress } = call.reporter;
  const isDeep = call.get(tensors) === true;
  const result = await withRun(call, { uri, isPatient: isDeep }, async (manager) => {
    if (isDeep) {
      await call.reporter.begin({
        verb: 'compared',
        headline: (event) =>
          event.type === 'planned'
            ? `reading ${formatPlural(event.fileCount, 'file')}   ${formatBytes(event.sizeBytes)}`
            : null,
      });
    }
    return expectingRun(call, manager, () =>
      manager.admin.diff(a, b, { tensors: isDeep, signal, onProgress }),
    );
  });
  return { text: diffText(result, call.style), json: jsonOf(result, call) };
}

function jsonOf(result: DiffResult, call: Call): JsonObject {
  return {
    uri: call.subject.uri ?? null,
    before: jsonId(result.before),
    after: jsonId(result.after),
    files: result.files.map(jsonFile),
    bytesRead: result.bytesRead,
  };
}

function jsonFile(file: FileDiff): JsonObject {
  return {
    name: file.name,
    change: file.change,
    beforeBytes: file.beforeBytes,
    afterBytes: file.afterBytes,
    tensors: toJson(file.tensors),
    note: file.note,
  };
}
