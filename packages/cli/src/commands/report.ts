import { resolve } from 'node:path';
import type { Call, Command, CommandResult } from '../command.ts';
import { formatBytes, printable } from '../format.ts';
import { requireRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { value } from '../option.ts';
import { assertWritable, writeTextFile } from '../text-file.ts';
import { usageError } from '../usage-error.ts';
import { parsePath } from '../values.ts';

const out = value('--out <file>', 'the file to write; it must not exist', parsePath);

export const report: Command = {
  name: 'report',
  group: 'Look',
  summary: 'Write the page of a run, with its data, as one HTML file',
  description:
    'For a ticket or a mail: the file shows what `holdfast ui` shows of the run at this moment, and loads nothing.',
  operands: 'URI --out FILE',
  options: [out],
  examples: ['holdfast report "file://$PWD/run" --out report.html'],
  isSilentWhenQuiet: true,
  run: runReport,
};

async function runReport(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const given = call.get(out);
  if (given === undefined)
    throw usageError('report needs --out', [`usage: holdfast report ${call.command.operands} [options]`]);
  const path = resolve(given);
  const file = { path, replaces: false };
  await assertWritable(file);
  const { readPage, reportOf } = await import('@holdfast/ui');
  const { clock, programVersion, signal } = call;
  const html = await withRun(call, { uri }, async (manager) => {
    await requireRun(manager, uri, call);
    return reportOf(manager, { uri, page: await readPage(), programVersion, clock, signal });
  });
  await writeTextFile(file, html);
  const sizeBytes = Buffer.byteLength(html);
  return {
    text: `${call.style('green', 'written')}  ${printable(path)}   ${formatBytes(sizeBytes)}`,
    json: { uri, path, sizeBytes },
  };
}
