import { type LocateResult, referenceText } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { checkpointOrLatest, givenVersion } from '../common-options.ts';
import { formatBytes, formatPlural, printable } from '../format.ts';
import { JsonRows, jsonId } from '../json.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import type { Style } from '../style.ts';
import { type Column, tableLines } from '../table.ts';

export const locate: Command = {
  name: 'locate',
  group: 'Look',
  summary: 'Show where the objects of a checkpoint are, for tools that do not know Holdfast',
  description:
    'Each file is one object with the bytes of the file and nothing else. If one writer has saved them all, and none is ' +
    'shared with an older version, one prefix holds exactly the files, so that aws s3 cp --recursive copies the checkpoint. ' +
    'Such a copy is not verified. Retention may remove the objects: pin the version, or take a lease, before you read them.',
  operands: 'URI',
  options: [checkpointOrLatest],
  examples: ['holdfast locate "file://$PWD/run"', 'holdfast locate "file://$PWD/run" --version 1200 --json'],
  run: runLocate,
};

async function runLocate(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const version = givenVersion(call) ?? 'latest';
  const { signal } = call;
  const found = await withRun(call, { uri }, (manager) =>
    expectingRun(call, manager, () => manager.admin.locate({ version, signal })),
  );
  const { id, prefixUri, files } = found;
  return {
    text: textOf(found, call.style),
    json: {
      uri: call.subject.uri ?? null,
      id: jsonId(id),
      prefixUri,
      files: new JsonRows(() =>
        files.map((file) => ({
          name: file.name,
          writer: file.writer,
          sizeBytes: file.sizeBytes,
          uri: file.uri,
        })),
      ),
    },
  };
}

const FILE: Column = { title: 'FILE', align: 'left' };
const SIZE: Column = { title: 'SIZE', align: 'right' };
const OBJECT: Column = { title: 'OBJECT', align: 'left' };

function* textOf({ id, prefixUri, files }: LocateResult, style: Style): Iterable<string> {
  const where = prefixUri === null ? 'no single prefix holds them' : `below ${printable(prefixUri)}`;
  const title = style('bold', `version ${referenceText({ version: id.version })}`);
  yield `${title}   ${formatPlural(files.length, 'file')}   ${where}`;
  if (files.length === 0) return;
  yield '';
  const columns = prefixUri === null ? [FILE, SIZE, OBJECT] : [FILE, SIZE];
  yield* tableLines(columns, files, ({ name, sizeBytes, uri }) =>
    [printable(name), formatBytes(sizeBytes), printable(uri)].slice(0, columns.length),
  );
}
