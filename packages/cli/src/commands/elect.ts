import type { StoreElection } from '@holdfast/training';
import { askOnceMore } from '../ask-once-more.ts';
import type { Call, Command, CommandResult } from '../command.ts';
import { engineLogger } from '../engine-log.ts';
import { formatRoughDuration, formatTime, printable, shellQuote } from '../format.ts';
import { jsonTime } from '../json.ts';
import { LOOK_TIMEOUT_MS } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { value } from '../option.ts';
import { usageError } from '../usage-error.ts';
import { BadValue, parseDuration, parseLongDuration } from '../values.ts';

const NOT_ELECTED = 7;
/** The next poll sees a renewal by the holder. Polling more often only costs requests. */
const LOOK_EVERY_MS = 5000;
const FOR_MS_MAX = 7 * 24 * 60 * 60 * 1000;

const id = value('--id <trainer>', 'name of this trainer, which no other trainer has', (text) => text);
const duration = value(
  '--for <duration>',
  'how long no other trainer is elected, from 1ms to 7d; use twice the time that the save takes',
  parseElectedTime,
);
const wait = value(
  '--wait <duration>',
  'keep asking for this long, such as 15m; default: ask once and do not wait',
  parseLongDuration,
);

function parseElectedTime(text: string): number {
  const ms = parseDuration(text);
  if (ms >= 1 && ms <= FOR_MS_MAX) return ms;
  throw new BadValue(`"${text}" is out of range; it takes 1ms to 7d`);
}

export const elect: Command = {
  name: 'elect',
  group: 'Save and restore',
  summary: 'Ask whether this trainer is elected to save, for a time',
  description:
    'Exit status 0: this trainer is elected, and no other will be for the time of --for. 7: another one is elected.\n' +
    'Any other status is an error, and never means that this trainer is elected. The elected trainer may ask again, ' +
    'which restarts its time. Another trainer can replace one that died only while it waits (--wait): ' +
    'it must see no renewal for 1.25 times the time of the other election.\n' +
    'An election is a hint and no lock: a paused trainer may still save while another is elected.',
  operands: 'URI --id TRAINER --for DURATION',
  options: [id, duration, wait],
  examples: [
    'holdfast elect "file://$PWD/run" --id trainer-0 --for 10m --json',
    'if holdfast elect "file://$PWD/run" --id trainer-0 --for 10m; then holdfast save ./ckpt "file://$PWD/run"; fi',
  ],
  isSilentWhenQuiet: true,
  run: runElect,
};

interface Request {
  readonly trainerId: string;
  readonly blockMs: number;
  readonly waitMs: number;
}

async function runElect(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const request = requestOf(call);
  // Loaded here, so that `--help` does not wait for it.
  const [{ openStore }, { createCheckpointManager }, { checkTrainerId, StoreElection }] = await Promise.all([
    import('@holdfast/stores'),
    import('@holdfast/core'),
    import('@holdfast/training'),
  ]);
  checkTrainerId(request.trainerId);
  const store = await openStore(uri, call.env);
  call.subject.uri = uri;
  const settings = { recordTimeoutMs: LOOK_TIMEOUT_MS };
  // Tells the outcome of a stopped request, and closes the store.
  const manager = createCheckpointManager({ store, settings });
  const election = new StoreElection(store, {
    clock: call.clock,
    settings,
    logger: engineLogger(call),
  });
  try {
    return describe(call, election, request, await ask(call, election, request));
  } catch (error) {
    throw await askOnceMore(error, manager, call);
  } finally {
    await manager.close();
  }
}

function requestOf(call: Call): Request {
  const [trainerId, blockMs] = [call.get(id), call.get(duration)];
  if (trainerId === undefined || blockMs === undefined) {
    throw usageError(`elect needs --${trainerId === undefined ? 'id' : 'for'}`, [
      'usage: holdfast elect URI --id TRAINER --for DURATION',
    ]);
  }
  return { trainerId, blockMs, waitMs: call.get(wait) ?? 0 };
}

interface Answer {
  readonly isElected: boolean;
  /** Wall-clock time when the call that answered began: the time of --for counts from then. */
  readonly askedAtMs: number;
  readonly waitedMs: number;
}

/**
 * Asks once, and then repeatedly while --wait lasts, with the same election object, which keeps
 * what it has seen.
 */
async function ask(call: Call, election: StoreElection, request: Request): Promise<Answer> {
  const { clock, signal } = call;
  const { trainerId, blockMs, waitMs } = request;
  const beganMs = clock.monotonicMs();
  for (let isTold = false; ; isTold = true) {
    const askedAtMs = clock.nowMs();
    const isElected = await election.requestSave(trainerId, blockMs, { signal });
    const waitedMs = clock.monotonicMs() - beganMs;
    if (isElected || waitedMs >= waitMs) return { isElected, askedAtMs, waitedMs };
    if (!isTold) call.messages.note(`waiting   ${holderText(election)}`);
    await clock.sleep(Math.min(LOOK_EVERY_MS, waitMs - waitedMs), signal);
  }
}

function holderText({ newest }: StoreElection): string {
  if (newest === null) return 'no trainer is elected';
  return `${printable(newest.trainerId)} is elected, for ${formatRoughDuration(newest.blockMs)} at a time`;
}

function describe(call: Call, election: StoreElection, request: Request, answer: Answer): CommandResult {
  const { isElected, askedAtMs, waitedMs } = answer;
  const { trainerId, blockMs } = request;
  const { newest } = election;
  const untilMs = askedAtMs + blockMs;
  const text = isElected
    ? `${call.style('green', 'elected')}  ${printable(trainerId)} until ${formatTime(untilMs)}`
    : `not elected  ${holderText(election)}${waitAdvice(call, election, request)}`;
  return {
    text,
    json: {
      uri: call.subject.uri ?? null,
      id: trainerId,
      isElected,
      until: isElected ? jsonTime(untilMs) : null,
      holder: newest === null ? null : { id: newest.trainerId, forMs: newest.blockMs },
      waitedMs: Math.round(waitedMs),
    },
    exitCode: isElected ? 0 : NOT_ELECTED,
  };
}

/** Advice for replacing a trainer that died. */
function waitAdvice(call: Call, { newest, patienceMs }: StoreElection, request: Request): string {
  if (newest === null || request.waitMs >= patienceMs) return '';
  // It has observed the grant only since its first answer.
  const waitFor = optionTime(Math.ceil((patienceMs + LOOK_EVERY_MS) / 1000) * 1000);
  const words = ['elect', call.subject.uri as string, '--id', request.trainerId].map(shellQuote).join(' ');
  return `\n  if that trainer is gone: \`holdfast ${words} --for ${optionTime(request.blockMs)} --wait ${waitFor}\` replaces it`;
}

/** In the form that `parseDuration` reads. */
function optionTime(ms: number): string {
  if (ms % 60_000 === 0) return `${ms / 60_000}m`;
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}
