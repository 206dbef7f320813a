import type { InspectResult } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { checkpointOrLatest, givenVersion } from '../common-options.ts';
import { inspectText, wholeTensors } from '../inspect-text.ts';
import { type JsonObject, JsonRows, type JsonValue, jsonId } from '../json.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { flag } from '../option.ts';

const parts = flag('--parts', 'a line for each part of a tensor that several ranks have saved');

export const inspect: Command = {
  name: 'inspect',
  group: 'Look',
  summary: 'Show the tensors of a checkpoint: type, shape, size, and the file that holds them',
  description:
    'It reads only the headers of *.safetensors files, and for *.distcp files their .metadata. ' +
    'Parts of distributed checkpoints of PyTorch are put together. Other files are only named. For the files of ElasticDL: holdfast elasticdl inspect.',
  operands: 'URI',
  options: [checkpointOrLatest, parts],
  examples: [
    'holdfast inspect "file://$PWD/run"',
    'holdfast inspect "file://$PWD/run" --version 1200 --json',
  ],
  run: runInspect,
};

async function runInspect(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const version = givenVersion(call) ?? 'latest';
  const { signal } = call;
  const result = await withRun(call, { uri }, (manager) =>
    expectingRun(call, manager, () => manager.admin.inspect({ version, signal })),
  );
  const text = inspectText(result, { style: call.style, withParts: call.get(parts) === true });
  return { text, json: jsonOf(result, call) };
}

function jsonOf(result: InspectResult, call: Call): JsonObject {
  return {
    uri: call.subject.uri ?? null,
    id: jsonId(result.id),
    bytesRead: result.bytesRead,
    files: result.files.map(({ name, writer, sizeBytes, tensors, note }) => ({
      name,
      writer,
      sizeBytes,
      tensorCount: tensors?.length ?? null,
      note,
    })),
    tensors: new JsonRows(() => jsonTensors(result)),
  };
}

function* jsonTensors({ files }: InspectResult): Iterable<JsonValue> {
  for (const { name, shape, sizeBytes, parts: found } of wholeTensors(files)) {
    const [{ tensor }] = found;
    yield {
      name,
      dtype: tensor.dtype,
      shape,
      sizeBytes,
      parts: found.map((part) => ({
        offsets: part.tensor.offsets,
        shape: part.tensor.shape,
        writer: part.file.writer,
        file: part.file.name,
      })),
    };
  }
}
