/** One writer process of the demo: it trains its share of the model, saves it when it is told to, and reports how that went. */

import { hostname } from 'node:os';
import { toCheckpointError } from '@holdfast/core';
import { openCheckpointManager } from '@holdfast/stores';
import { type Files, filesOfWriter, type Model, WRITER_COUNT } from './model.ts';

/** What a writer is started with. */
export interface WriterSetup {
  readonly uri: string;
  /** Which life of the job this is: 1, 2, … */
  readonly attempt: number;
  readonly index: number;
  readonly model: Model;
}

export interface SaveCommand {
  readonly type: 'save';
  readonly version: number;
  /** How long to wait for the other writers. */
  readonly timeoutMs?: number | undefined;
  /** Deliver and leave. */
  readonly noWait?: boolean | undefined;
  /** Report `halfway` in the middle of the upload, and go on when told to `continue`. */
  readonly pauseHalfway?: boolean | undefined;
}

export type Command =
  | { readonly type: 'train'; readonly version: number }
  /** Take the run over, then restore one's share of the newest version, which the attempt before this one has saved. */
  | { readonly type: 'load' }
  | SaveCommand
  | { readonly type: 'continue' }
  | { readonly type: 'close' };

export type Report =
  | { readonly type: 'trained' }
  /** `isSame`: it is what that attempt had in memory. */
  | { readonly type: 'loaded'; readonly version: number; readonly isSame: boolean }
  | { readonly type: 'halfway' }
  | { readonly type: 'saved'; readonly sizeBytes: number; readonly missingWriters: readonly number[] }
  | { readonly type: 'failed'; readonly code: string; readonly message: string };

const setup = JSON.parse(process.argv[2] ?? '') as WriterSetup;

const manager = await openCheckpointManager(setup.uri, {
  env: process.env,
  attempt: `demo-attempt-${setup.attempt}`,
  writer: { index: setup.index, count: WRITER_COUNT },
  process: { host: hostname(), pid: process.pid },
});

let files: Files = {};
let goOn: () => void = () => undefined;

async function load(): Promise<Report> {
  await manager.join(); // from here on the attempt before cannot commit: what is the latest now stays it
  const version = Number((await manager.latest())?.version);
  const expected = filesOfWriter(setup.index, setup.model, { version, attempt: setup.attempt - 1 });
  const to = Object.fromEntries(
    Object.entries(expected).map(([name, { byteLength }]) => [name, new Uint8Array(byteLength)]),
  );
  await manager.restore({ version, to });
  const isSame = Object.entries(expected).every(
    ([name, bytes]) => Buffer.compare(bytes, to[name] ?? new Uint8Array()) === 0,
  );
  return { type: 'loaded', version, isSame };
}

async function save({ version, pauseHalfway, timeoutMs, noWait }: SaveCommand): Promise<Report> {
  const result = await manager.save({
    version,
    files: pauseHalfway ? withPause(files) : files,
    metrics: { loss: 2 - version / 1000 },
    timeoutMs,
    noWait,
  });
  return { type: 'saved', sizeBytes: result.sizeBytes, missingWriters: result.missingWriters };
}

/** The same files, but the last one is a stream that pauses after half of its bytes. */
function withPause(all: Files): Record<string, Uint8Array | AsyncIterable<Uint8Array>> {
  const [name, bytes] = Object.entries(all).at(-1) ?? ['', new Uint8Array()];
  return { ...all, [name]: pausingStream(bytes) };
}

async function* pausingStream(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  const half = Math.floor(bytes.byteLength / 2);
  yield bytes.subarray(0, half);
  const told = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  report({ type: 'halfway' });
  await told;
  yield bytes.subarray(half);
}

async function obey(command: Command): Promise<void> {
  switch (command.type) {
    case 'train':
      files = filesOfWriter(setup.index, setup.model, { version: command.version, attempt: setup.attempt });
      return report({ type: 'trained' });
    case 'load':
      return report(await load().catch(failed));
    case 'save':
      return report(await save(command).catch(failed));
    case 'continue':
      return goOn();
    case 'close':
      await manager.close();
      process.disconnect();
  }
}

function failed(error: unknown): Report {
  const { code, message } = toCheckpointError(error);
  return { type: 'failed', code, message };
}

function report(message: Report): void {
  process.send?.(message);
}

process.on('message', (command: Command) => void obey(command));
// The demo has gone: a writer without it has nothing to do.
process.on('disconnect', () => process.exit());
