import {
  LEASE_TTL_MS_MAX,
  LEASE_TTL_MS_MIN,
  type Lease,
  type RunManager,
  referenceText,
} from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { checkpointOrLatest, foundText, versionOf } from '../common-options.ts';
import { formatRoughDuration, formatTime, printable, shellQuote } from '../format.ts';
import { type JsonObject, jsonId, jsonTime, jsonVersion } from '../json.ts';
import { expectingRun, requireRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { flag, value } from '../option.ts';
import { renderTable } from '../table.ts';
import { usageError } from '../usage-error.ts';
import { durationBetween } from '../values.ts';

const duration = value(
  '--for <duration>',
  'how long, from 1s to 30d, by the clock of the store',
  durationBetween(LEASE_TTL_MS_MIN, LEASE_TTL_MS_MAX),
);
const reader = value(
  '--reader <name>',
  'name of the reader, for lists and messages; default: reader',
  (text) => text,
);
const release = value('--release <id>', 'end this lease before its time', (text) => text);
const listing = flag(
  '--list',
  'list the leases of --version, or all; including those of restores in progress',
);

export const lease: Command = {
  name: 'lease',
  group: 'Keep tidy',
  summary: 'Protect a version from collection while a program reads it',
  description:
    'For programs that read by other means; `restore` takes a lease by itself. A lease ends at its time, even if its ' +
    'reader still runs, and is never extended: to read longer, take another before it ends.',
  operands: 'URI',
  options: [checkpointOrLatest, duration, reader, release, listing],
  examples: [
    'holdfast lease "file://$PWD/run" --version 1200 --for 2h --reader eval',
    'holdfast lease "file://$PWD/run" --list',
  ],
  run: runLease,
};

async function runLease(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const modes = [duration, release, listing].filter((option) => {
    const given = call.get<unknown>(option);
    return given !== undefined && given !== false;
  });
  const [mode, other] = modes;
  if (other !== undefined) {
    throw usageError(`--${mode?.name} and --${other.name} cannot be combined`, ['give one of them']);
  }
  if (mode === undefined) {
    throw usageError('lease needs --for, --release or --list', [
      'usage: holdfast lease URI --version V --for 2h [--reader NAME]',
    ]);
  }
  const act = mode === duration ? take : mode === release ? giveBack : showAll;
  return withRun(call, { uri }, (manager) => act(call, manager));
}

async function take(call: Call, manager: RunManager): Promise<CommandResult> {
  const version = call.get(checkpointOrLatest);
  if (version !== undefined && version !== 'latest') call.subject.version = versionOf(version);
  const options = {
    version,
    ttlMs: call.get(duration) as number,
    reader: call.get(reader),
    signal: call.signal,
  };
  const taken = await expectingRun(call, manager, () => manager.admin.lease(options));
  const uri = call.subject.uri as string;
  const until = formatTime(taken.expiresAtMs ?? 0);
  return {
    text: [
      `${call.style('green', 'leased')}  version ${foundText(version, taken.checkpoint)} until ${until}   ${printable(taken.id)}`,
      `  \`holdfast lease ${shellQuote(uri)} --release ${shellQuote(taken.id)}\` ends it before`,
    ].join('\n'),
    json: { uri, ...jsonLease(taken) },
  };
}

async function giveBack(call: Call, manager: RunManager): Promise<CommandResult> {
  const id = call.get(release) as string;
  const wasThere = await manager.admin.releaseLease(id, { signal: call.signal });
  return {
    text: wasThere
      ? `${call.style('green', 'released')}  ${printable(id)}`
      : `there is no lease ${printable(id)}: it was released, or deleted after it had expired`,
    json: { uri: call.subject.uri ?? null, id, wasThere },
  };
}

async function showAll(call: Call, manager: RunManager): Promise<CommandResult> {
  const given = call.get(checkpointOrLatest);
  const version = given === 'latest' ? (await manager.latest())?.version : given;
  const leases = await manager.admin.leases({ version, signal: call.signal });
  if (leases.length === 0) await requireRun(manager, call.subject.uri as string, call);
  return {
    text: leases.length === 0 ? 'no lease' : tableOf(leases, call),
    json: { uri: call.subject.uri ?? null, leases: leases.map(jsonLease) },
  };
}

function tableOf(leases: readonly Lease[], call: Call): string {
  const areOfOne = new Set(leases.map(({ checkpoint }) => checkpoint.lineage)).size < 2;
  const [titles, ...rows] = renderTable(
    [
      { title: 'VERSION', align: 'right' },
      { title: 'READER', align: 'left' },
      { title: 'BY', align: 'left' },
      { title: 'TAKEN', align: 'left' },
      { title: 'STATE', align: 'left' },
      { title: 'ID', align: 'left' },
    ],
    leases.map((each) => [
      referenceText(areOfOne ? { version: each.version } : each.checkpoint),
      printable(each.reader),
      each.host === '' ? '' : `${printable(each.host)}:${each.pid}`,
      `${formatRoughDuration(each.ageMs)} ago`,
      stateOf(each),
      printable(each.id),
    ]),
  );
  return [call.style('bold', titles as string), ...rows].join('\n');
}

/** Uses only the store's clock, because this machine's may be wrong. */
function stateOf({ createdAtMs, ageMs, expiresAtMs, isExpired }: Lease): string {
  if (expiresAtMs === null) return 'unreadable: in force until it is released';
  const leftMs = expiresAtMs - createdAtMs - ageMs;
  return isExpired ? `expired ${formatRoughDuration(-leftMs)} ago` : `${formatRoughDuration(leftMs)} left`;
}

function jsonLease(each: Lease): JsonObject {
  return {
    id: each.id,
    key: each.key,
    version: jsonVersion(each.version),
    checkpoint: jsonId(each.checkpoint),
    reader: each.reader,
    process: { host: each.host, pid: each.pid },
    createdAt: jsonTime(each.createdAtMs),
    ageMs: each.ageMs,
    expiresAt: each.expiresAtMs === null ? null : jsonTime(each.expiresAtMs),
    isExpired: each.isExpired,
  };
}
