import { join, resolve } from 'node:path';
import type { RunningAgent, Stopped } from '@holdfast/agent';
import type { Logger } from '@holdfast/core/contract';
import { statusText } from '../agent/status-text.ts';
import type { Call, Command, CommandResult } from '../command.ts';
import type { JsonObject } from '../json.ts';
import { value } from '../option.ts';
import type { Environment } from '../sourced.ts';
import { usageError } from '../usage-error.ts';
import { durationBetween, parseDeadline, parsePath } from '../values.ts';

const DAY_MS = 24 * 60 * 60_000;
/** Kubernetes allows 30 s after SIGTERM, including the end of this process. */
const DEADLINE_MS = 25_000;

const socket = value(
  '--socket <path>',
  'unix socket that trainers use; default $HOLDFAST_AGENT, $XDG_RUNTIME_DIR/holdfast/agent.sock, or in /tmp/holdfast-UID',
  parsePath,
);
const stage = value(
  '--stage <dir>',
  'where trainers put their bytes, best in memory (/dev/shm); default "stage" beside the socket',
  parsePath,
);
const config = value('--config <file>', 'JSON: aliases of runs, what trainers may use, limits', parsePath);
const idleExit = value(
  '--idle-exit <duration>',
  'end after this long without trainers, such as 10m; default: never',
  durationBetween(1000, 30 * DAY_MS),
);
const deadline = value(
  '--deadline <duration>',
  'after SIGTERM: how long saves under way may take; default 25s',
  parseDeadline,
);

export const agent: Command = {
  name: 'agent',
  group: 'Save and restore',
  summary: 'Save and restore for the trainers of this machine, in any language',
  description:
    'Serves a unix socket; docs/agent.md describes its calls, and `pip install` brings the Python client.\n' +
    'When it serves, it prints a line of JSON. Its log is JSON lines on standard error.\n' +
    'After SIGTERM it takes no new saves, finishes what fits the deadline, and says what is durable.\n' +
    'The next agent continues with sealed saves in the staging directory that were not finished.\n' +
    '`holdfast agent status` prints what a running agent does.',
  endsQuietly: true,
  operands: '[status]',
  options: [socket, stage, config, idleExit, deadline],
  examples: ['holdfast agent --stage /dev/shm/holdfast-$USER --idle-exit 10m', 'holdfast agent status'],
  run: runAgent,
};

async function runAgent(call: Call): Promise<CommandResult> {
  const [word, ...more] = call.operands;
  if (more.length > 0 || (word !== undefined && word !== 'status'))
    throw usageError('agent takes one operand at most', ['it is: status']);
  const socketPath = call.get(socket) ?? defaultSocket(call.env);
  return word === 'status' ? showStatus(call, socketPath) : serve(call, socketPath);
}

/** As the Python client finds it. */
function defaultSocket(env: Environment): string {
  const { HOLDFAST_AGENT: given, XDG_RUNTIME_DIR: runtime } = env;
  if (given) return resolve(given);
  const own = runtime?.startsWith('/')
    ? join(runtime, 'holdfast')
    : `/tmp/holdfast-${process.getuid?.() ?? 0}`;
  return join(own, 'agent.sock');
}

async function serve(call: Call, socketPath: string): Promise<CommandResult> {
  const { startAgent } = await import('@holdfast/agent');
  const logger: Logger = { log: call.messages.log };
  const running = await startAgent({
    socket: socketPath,
    stage: call.get(stage) ?? join(socketPath, '..', 'stage'),
    config: call.get(config),
    idleExitMs: call.get(idleExit),
    programVersion: call.programVersion,
    env: call.env,
    logger,
  });
  call.print(JSON.stringify({ event: 'ready', socket: socketPath, pid: process.pid }));
  const stopped = await endOf(running, logger, call);
  const newest = stopped.newest.map((one) => ({ ...one }));
  const json: JsonObject = { event: 'ended', ...stopped, newest };
  return { text: JSON.stringify(json), json };
}

async function endOf(running: RunningAgent, logger: Logger, call: Call): Promise<Stopped> {
  const signalled = new Promise<void>((resolve) => {
    if (call.signal.aborted) resolve();
    else call.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  const endedFirst = await Promise.race([signalled, running.ended]);
  if (endedFirst) return endedFirst;
  const deadlineMs = call.get(deadline) ?? DEADLINE_MS;
  logger.log('info', 'stops: takes no new saves; a second signal ends it at once', { deadlineMs });
  return running.stop(deadlineMs);
}

async function showStatus(call: Call, socketPath: string): Promise<CommandResult> {
  // HTTP costs the other commands time when they start.
  const { agentStatus } = await import('../agent/ask-agent.ts');
  const status = await agentStatus(socketPath, call.env);
  return { text: statusText(status, call.style), json: status };
}
