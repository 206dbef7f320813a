import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setFlagsFromString } from 'node:v8';
import { CheckpointError } from '@holdfast/core/contract';
import type { RunningUi } from '@holdfast/ui';
import type { Call, Command, CommandResult } from '../command.ts';
import { uriFromEnvironment } from '../env.ts';
import { LOOK_RETRY_TIMEOUT_MS, LOOK_TIMEOUT_MS } from '../open-run.ts';
import { flag, value } from '../option.ts';
import { usageError } from '../usage-error.ts';
import { parsePath, parseWhole } from '../values.ts';

const TOKEN_BYTES = 24;
const TOKEN = /^[\w-]{16,256}$/;

const port = value('--port <n>', 'port of the page; default: a free one', parseWhole(0, 65_535));
const host = value(
  '--host <address>',
  'address to serve; default 127.0.0.1, this machine only',
  (text) => text,
);
const tokenFile = value(
  '--token-file <file>',
  'file with the token of the page; default: a random one',
  parsePath,
);
const tls = value(
  '--tls <file>',
  'PEM with a certificate and its private key, for other machines',
  parsePath,
);
const allowChanges = flag('--allow-changes', 'offer to pin, annotate, retire by the rules and roll back');
const agentSocket = value('--agent <socket>', 'also show the agent that serves this unix socket', parsePath);

export const ui: Command = {
  name: 'ui',
  group: 'Look',
  summary: 'Show runs on a web page of this machine: timeline, versions, retention, saves in progress',
  description:
    'URI is a run, or a place above runs. Prints the address of the page, which ends with a random token, and serves until Ctrl-C. It reads the store only ' +
    'while a page asks, and changes nothing without --allow-changes. Nothing is loaded from other places, so it works without a network.\n' +
    'Another address than 127.0.0.1 needs --tls and --token-file.',
  operands: '[URI...]',
  options: [port, host, tokenFile, tls, allowChanges, agentSocket],
  examples: [
    'holdfast ui "file://$PWD/run"',
    'holdfast ui s3://bucket/team --port 8484',
    'holdfast ui --agent /tmp/holdfast-1000/agent.sock',
  ],
  endsQuietly: true,
  run: runUi,
};

async function runUi(call: Call): Promise<CommandResult> {
  const socket = call.get(agentSocket);
  const uris = urisOf(call, socket);
  const address = call.get(host) ?? '127.0.0.1';
  const files = { token: call.get(tokenFile), tls: call.get(tls) };
  // Most of its objects live shortly. A small young generation, and an old one that V8 collects
  // each time it has grown by a fifth, keep the process small.
  setFlagsFromString('--max-semi-space-size=2');
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=20');
  // A URI that is not accepted may hold a secret, which the page would show.
  for (const uri of uris) await (await openForLook(call, uri)).close();
  const { isLoopback, readPage, startUi } = await import('@holdfast/ui');
  if (!isLoopback(address) && (files.token === undefined || files.tls === undefined))
    throw usageError(`--host ${address} needs --tls and --token-file`, [
      'other machines can reach this address: without TLS they could read the token on the way',
    ]);
  const running = await startUi({
    session: {
      programVersion: call.programVersion,
      uris,
      mayChange: call.get(allowChanges) === true,
    },
    page: await readPage(),
    token: files.token === undefined ? randomToken() : await tokenIn(files.token),
    host: address,
    port: call.get(port) ?? 0,
    tls: files.tls === undefined ? null : await textOf(files.tls),
    clock: call.clock,
    env: call.env,
    open: (uri) => openForLook(call, uri),
    askAgent: socket === undefined ? undefined : () => askAgent(call, socket),
  });
  return serveUntilSignal(call, running);
}

function urisOf(call: Call, socket: string | undefined): readonly string[] {
  if (call.operands.length > 0) return call.operands;
  const uri = uriFromEnvironment(call.env);
  if (uri !== null) return [uri];
  if (socket !== undefined) return [];
  throw usageError('ui needs the URI of a run, or --agent', [
    `usage: holdfast ui ${call.command.operands} [options]`,
  ]);
}

function randomToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url');
}

async function tokenIn(file: string): Promise<string> {
  const token = (await textOf(file)).trim();
  if (TOKEN.test(token)) return token;
  throw new CheckpointError(
    'InvalidConfig',
    `the token in ${file} must have 16 to 256 letters, digits, '-' and '_'`,
    { context: { path: file } },
  );
}

async function textOf(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(async (error: unknown) => {
    const { fileError } = await import('@holdfast/local-files');
    throw fileError(error, `read ${file}`, { path: file });
  });
}

async function askAgent(call: Call, socket: string) {
  const { askAgent } = await import('../agent/ask-agent.ts');
  return askAgent(socket, '/v1/status', call.env);
}

async function openForLook(call: Call, uri: string) {
  const { openCheckpointManager } = await import('@holdfast/stores');
  return openCheckpointManager(uri, {
    env: call.env,
    settings: { recordTimeoutMs: LOOK_TIMEOUT_MS, retryTimeoutMs: LOOK_RETRY_TIMEOUT_MS },
  });
}

async function serveUntilSignal(call: Call, running: RunningUi): Promise<CommandResult> {
  try {
    call.print(`the page is at  ${running.url}`);
    call.messages.note('holdfast: the address ends with the token of this page; Ctrl-C ends it');
    await new Promise<void>((resolve) => {
      if (call.signal.aborted) resolve();
      else call.signal.addEventListener('abort', () => resolve(), { once: true });
    });
  } finally {
    await running.close();
  }
  return { text: '', json: { port: running.port } };
}
