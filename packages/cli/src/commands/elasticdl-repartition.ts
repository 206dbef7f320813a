import { realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ProgressEvent } from '@holdfast/core/contract';
import type { ShardSet } from '@holdfast/elasticdl';
import type { Call, Command, CommandResult } from '../command.ts';
import { buffer, checkpointOrLatest } from '../common-options.ts';
import { withShards } from '../elasticdl/open-shards.ts';
import { form, numbering } from '../elasticdl/options.ts';
import { type Division, openRepartitionTarget } from '../elasticdl/repartition-target.ts';
import { suspicionTeller } from '../elasticdl/suspicion.ts';
import { formatBytes, formatPlural, printable } from '../format.ts';
import { jsonVersion } from '../json.ts';
import { takeOperands } from '../operands.ts';
import { value } from '../option.ts';
import { elapsedAndRate } from '../outcome.ts';
import { REPLACE_OPTIONS } from '../replace-option.ts';
import { usageError } from '../usage-error.ts';
import { parseChoice, parseWhole } from '../values.ts';

const SERVERS_MAX = 65_536;
const to = value('--to <m>', 'the new number of parameter servers', parseWhole(1, SERVERS_MAX));
const index = value(
  '--index <i>',
  'write only the shard of server I, from 0 to M - 1; other shards of the version stay',
  parseWhole(0, SERVERS_MAX - 1),
);
const NAMINGS = ['code', 'document'] as const;
const naming = value(
  '--names <names>',
  "code (the default): version-N and .ckpt, as in ElasticDL's code; document: version_N and .chkpt, as in its design",
  parseChoice(NAMINGS),
  NAMINGS,
);

export const elasticdlRepartition: Command = {
  name: 'elasticdl repartition',
  group: 'ElasticDL',
  summary: 'Reshard a checkpoint of ElasticDL to another number of parameter servers',
  description:
    'FROM is a directory, a URI or a complete model in one file, as for inspect. OUT defaults to the working directory.\n' +
    'Writes OUT/version-N/variables-i-of-M.ckpt; ElasticDL starts from it with --checkpoint_dir_for_init.\n' +
    'The version appears complete or not at all. An existing one is refused. --replace replaces a version ' +
    'that has only such files; --replace=everything replaces any, after it has asked (or with --apply).\n' +
    'With --index it writes the file of one server, complete or not at all; ElasticDL needs all M in the directory.',
  operands: 'FROM [OUT] --to M',
  options: [to, index, naming, checkpointOrLatest, form, ...REPLACE_OPTIONS, numbering, buffer],
  examples: [
    'holdfast elasticdl repartition ./checkpoint_dir ./checkpoint_dir_8 --to 8',
    'holdfast elasticdl repartition "file://$PWD/run" ./ckpt --to 3 --version 100',
    'holdfast elasticdl repartition ./checkpoint_dir ./for_server_2 --to 8 --index 2',
  ],
  isSilentWhenQuiet: true,
  run: runRepartition,
};

async function runRepartition(call: Call): Promise<CommandResult> {
  const names = call.operands.length > 1 ? ['FROM', 'OUT'] : ['FROM'];
  const [from = '', out = '.'] = takeOperands(call.command, call.operands, names);
  const wanted = wantedShards(call);
  const beganMs = call.clock.monotonicMs();
  return withShards(call, from, { isPatient: true }, async (set) => {
    const version = await versionOf(call, set);
    const { versionFolder } = await import('@holdfast/elasticdl');
    const directory = join(out, versionFolder(version, wanted.naming));
    call.subject.path = directory;
    if (wanted.index !== undefined) await assertNotRead(from, directory);
    const division = { ...wanted, directory };
    const { suspicions, onSuspicion } = suspicionTeller(call);
    const files = await divide(call, set, division, onSuspicion);
    const fromCount = set.shards.length;
    const written = { from: set.where, division, version, fromCount, files, suspicions };
    return describe(call, written, call.clock.monotonicMs() - beganMs);
  });
}

/**
 * The shards of other servers are made from all files, so none of them may be replaced meanwhile.
 */
async function assertNotRead(from: string, directory: string): Promise<void> {
  const place = (path: string) => realpath(path).catch(() => null);
  const [read, written] = await Promise.all([place(from), place(directory)]);
  if (read === null || written === null || (written !== read && dirname(written) !== read)) return;
  throw usageError(`--index would replace a shard that the other shards of ${directory} are made from`, [
    'write into another directory, or without --index',
  ]);
}

function wantedShards(call: Call): Omit<Division, 'directory'> {
  const count = call.get(to);
  if (count === undefined) {
    throw usageError(`${call.command.name} needs --to`, [
      `usage: holdfast ${call.command.name} ${call.command.operands} [options]`,
    ]);
  }
  const only = call.get(index);
  if (only !== undefined && only >= count) {
    throw usageError(`--index ${only} is not one of ${count} servers`, [
      `servers count from 0, so the last one is ${count - 1}`,
    ]);
  }
  return { count, index: only, naming: call.get(naming) ?? 'code' };
}

/** The version from its name, as ElasticDL reads it; otherwise from its files. */
async function versionOf(call: Call, { version, shards: [first] }: ShardSet): Promise<bigint> {
  if (version !== null || first === undefined) return version ?? 0n;
  const { readShardLayout } = await import('@holdfast/elasticdl');
  const options = { name: first.name, numbering: call.get(numbering), signal: call.signal };
  return BigInt((await readShardLayout(first.source, options)).version);
}

async function divide(
  call: Call,
  set: ShardSet,
  division: Division,
  onSuspicion: (reason: string) => void,
): Promise<readonly WrittenFile[]> {
  const { count, index: only, naming } = division;
  const { extensionOf, repartition } = await import('@holdfast/elasticdl');
  const target = await openRepartitionTarget(call, division);
  await call.reporter.begin({ verb: 'written', headline: (event) => headline(event, set, division) });
  const { files } = await repartition(set, target, {
    count,
    index: only,
    extension: extensionOf(naming),
    form: call.get(form),
    numbering: call.get(numbering),
    bufferBytes: call.get(buffer),
    signal: call.signal,
    onSuspicion,
    onProgress: call.reporter.onProgress,
  });
  return files;
}

function headline(event: ProgressEvent, set: ShardSet, division: Division): string | null {
  if (event.type !== 'planned') return null;
  const shards = shardsText(set.shards.length, division);
  return `${printable(set.where)} → ${printable(division.directory)}   ${shards}   ${formatBytes(event.sizeBytes)}`;
}

function shardsText(fromCount: number, { count, index: only }: Division): string {
  const shards = `${fromCount} → ${formatPlural(count, 'shard')}`;
  return only === undefined ? shards : `${shards}, only ${only}`;
}

interface WrittenFile {
  readonly name: string;
  readonly sizeBytes: number;
}

interface Written {
  readonly from: string;
  readonly division: Division;
  readonly version: bigint;
  readonly fromCount: number;
  readonly files: readonly WrittenFile[];
  readonly suspicions: readonly string[];
}

function describe(call: Call, written: Written, durationMs: number): CommandResult {
  const { from, division, version, fromCount, files, suspicions } = written;
  const { directory, index: only } = division;
  const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  const text = [
    `${call.style('green', 'repartitioned')}  version ${version}`,
    shardsText(fromCount, division),
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
      index: only ?? null,
      files: files.map(({ name, sizeBytes: bytes }) => ({ name, sizeBytes: bytes })),
      sizeBytes,
      suspicions,
      durationMs: Math.round(durationMs),
    },
  };
}
