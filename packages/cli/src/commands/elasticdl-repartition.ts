import { join } from 'node:path';
import type { ProgressEvent } from '@holdfast/core/contract';
import type { ShardSet } from '@holdfast/elasticdl';
import type { Call, Command, CommandResult } from '../command.ts';
import { buffer, versionOrLatest } from '../common-options.ts';
import { withShards } from '../elasticdl/open-shards.ts';
import { form, numbering } from '../elasticdl/options.ts';
import { formatBytes, formatPlural, printable } from '../format.ts';
import { jsonVersion } from '../json.ts';
import { takeOperands } from '../operands.ts';
import { value } from '../option.ts';
import { elapsedAndRate } from '../outcome.ts';
import { confirmedReplace, REPLACE_OPTIONS, tellLeft } from '../replace-option.ts';
import { usageError } from '../usage-error.ts';
import { parseWhole } from '../values.ts';

const to = value('--to <m>', 'for how many parameter servers', parseWhole(1, 65_536));

export const elasticdlRepartition: Command = {
  name: 'elasticdl repartition',
  group: 'ElasticDL',
  summary: 'Divide a checkpoint of ElasticDL anew, among another number of parameter servers',
  description:
    'FROM is a directory or a URI, as for inspect. Without OUT it is the working directory.\n' +
    'Writes OUT/version-N/variables-i-of-M.ckpt; ElasticDL takes it as --checkpoint_dir_for_init.\n' +
    'The version appears whole or not at all. One that exists is refused; --replace takes the place of\n' +
    'one with nothing but such files, --replace=everything of any, after it has asked (or with --apply).',
  operands: 'FROM [OUT] --to M',
  options: [to, versionOrLatest, form, ...REPLACE_OPTIONS, numbering, buffer],
  examples: [
    'holdfast elasticdl repartition ./checkpoint_dir ./checkpoint_dir_8 --to 8',
    'holdfast elasticdl repartition "file://$PWD/run" ./ckpt --to 3 --version 100',
  ],
  isSilentWhenQuiet: true,
  run: runRepartition,
};

async function runRepartition(call: Call): Promise<CommandResult> {
  const names = call.operands.length > 1 ? ['FROM', 'OUT'] : ['FROM'];
  const [from = '', out = '.'] = takeOperands(call.command, call.operands, names);
  const count = call.get(to);
  if (count === undefined) {
    throw usageError(`${call.command.name} needs --to`, [
      `usage: holdfast ${call.command.name} ${call.command.operands} [options]`,
    ]);
  }
  const beganMs = call.clock.monotonicMs();
  return withShards(call, from, { isPatient: true }, async (set) => {
    const version = await versionOf(call, set);
    const directory = join(out, `version-${version}`);
    call.subject.path = directory;
    const files = await divide(call, set, { count, directory });
    const written = { from: set.where, directory, version, fromCount: set.shards.length, files };
    return describe(call, written, call.clock.monotonicMs() - beganMs);
  });
}

/** By its name, as ElasticDL takes it; else what its files say. */
async function versionOf(call: Call, { version, shards: [first] }: ShardSet): Promise<bigint> {
  if (version !== null || first === undefined) return version ?? 0n;
  const { readShardLayout } = await import('@holdfast/elasticdl');
  const options = { name: first.name, numbering: call.get(numbering), signal: call.signal };
  return BigInt((await readShardLayout(first.source, options)).version);
}

interface Division {
  readonly count: number;
  readonly directory: string;
}

async function divide(call: Call, set: ShardSet, division: Division): Promise<readonly WrittenFile[]> {
  const { count, directory } = division;
  const { parseShardFile, repartition } = await import('@holdfast/elasticdl');
  const { localFiles } = await import('@holdfast/local-files');
  // By their names: as a rule ElasticDL itself has written what is there.
  const isOwn = (name: string) => parseShardFile(name) !== null;
  const replace = await confirmedReplace(call, directory, isOwn);
  const target = await localFiles.openTarget(directory, {
    replace,
    isOwn,
    signal: call.signal,
    onLeft: (left) => tellLeft(call, left),
  });
  await call.reporter.begin({ verb: 'written', headline: (event) => headline(event, set, division) });
  const { files } = await repartition(set, target, {
    count,
    form: call.get(form),
    numbering: call.get(numbering),
    bufferBytes: call.get(buffer),
    signal: call.signal,
    onProgress: call.reporter.onProgress,
  });
  return files;
}

function headline(event: ProgressEvent, set: ShardSet, { count, directory }: Division): string | null {
  if (event.type !== 'planned') return null;
  const shards = `${set.shards.length} → ${formatPlural(count, 'shard')}`;
  return `${printable(set.where)} → ${printable(directory)}   ${shards}   ${formatBytes(event.sizeBytes)}`;
}

interface WrittenFile {
  readonly name: string;
  readonly sizeBytes: number;
}

interface Written {
  readonly from: string;
  readonly directory: string;
  readonly version: bigint;
  readonly fromCount: number;
  readonly files: readonly WrittenFile[];
}

function describe(call: Call, written: Written, durationMs: number): CommandResult {
  const { from, directory, version, fromCount, files } = written;
  const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  const text = [
    `${call.style('green', 'repartitioned')}  version ${version}`,
    `${fromCount} → ${formatPlural(files.length, 'shard')}`,
    formatBytes(sizeBytes),
    ...elapsedAndRate(durationMs, sizeBytes),
    `in ${printable(directory)}`,
  ];
  return {
    text: text.join('   '),
    json: {
      from,
      directory,
      version: jsonVersion(version),
      fromCount,
      files: files.map(({ name, sizeBytes: bytes }) => ({ name, sizeBytes: bytes })),
      sizeBytes,
      durationMs: Math.round(durationMs),
    },
  };
}
