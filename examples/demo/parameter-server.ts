/**
 * A parameter server process. It holds a share of the model, applies the updates that trainers
 * push, and saves its share after every `checkpointSteps` of its own updates. After a restart it
 * continues from the latest checkpoint, however many servers had saved that one.
 *
 * Server 0 saves last. It attaches the model's quality to the version, and that is judged on what
 * all servers have saved.
 */

import { hostname } from 'node:os';
import { toCheckpointError } from '@holdfast/core';
import { CheckpointSaver, openCheckpointShards, restoreShard } from '@holdfast/elasticdl';
import { openCheckpointManager } from '@holdfast/stores';
import { fromModelShard, toModelShard } from './model-shard.ts';
import { ParameterShard } from './parameter-shard.ts';
import { DIM, type Shape } from './parameters.ts';
import { pausingManager } from './pausing-manager.ts';
import type { Position } from './placement.ts';
import { NOW, serve } from './remote-server.ts';

export interface ServerSetup {
  readonly uri: string;
  /** The life of the job: 1, 2, … */
  readonly attempt: number;
  readonly position: Position;
  readonly shape: Shape;
  readonly checkpointSteps: number;
  /**
   * For the story: the server pauses in the middle of saving this version and reports `halfway`.
   */
  readonly pauseAt: number | null;
}

export type ServerCommand =
  /**
   * To server 0: all others have saved this version, and `metrics` are the results of its
   * evaluation.
   */
  | { readonly type: 'save'; readonly version: number; readonly metrics: Readonly<Record<string, number>> }
  /** This version is committed, so that no process asks for older ones. */
  | { readonly type: 'forget before'; readonly version: number }
  | { readonly type: 'go on' }
  | { readonly type: 'close' };

export type ServerReport =
  /** `version` is the restored one, or 0 if the run had none. */
  | { readonly type: 'ready'; readonly port: number; readonly version: number; readonly rowCount: number }
  /** Server 0 has put this version aside, or another server has delivered its share. */
  | { readonly type: 'has'; readonly version: number }
  | { readonly type: 'halfway' }
  | { readonly type: 'committed'; readonly version: number }
  | { readonly type: 'failed'; readonly code: string; readonly message: string };

const setup = JSON.parse(process.argv[2] ?? '') as ServerSetup;
const { uri, attempt, position, shape, checkpointSteps, pauseAt } = setup;

let goOn: () => void = () => undefined;

const manager = await openCheckpointManager(uri, {
  attempt: `demo-attempt-${attempt}`,
  writer: position,
  process: { host: hostname(), pid: process.pid },
});
const saver = new CheckpointSaver(
  pausingManager(manager, (version) => version === pauseAt, pause),
  { ...position, checkpointSteps },
);
/** The model as it was saved, by version, for its evaluation. */
const saved = new Map<number, ParameterShard>();
let shard: ParameterShard;

async function start(): Promise<void> {
  // After joining, no earlier attempt can commit, and no earlier life of this server can. The
  // latest version therefore stays the latest.
  await manager.join();
  shard = (await restore()) ?? ParameterShard.begin(shape, position);
  saved.set(shard.version, shard.copy());
  const port = await serve(position, {
    shardAt: (version) => (version === NOW ? shard : (saved.get(version) ?? null)),
    push(ids, gradients) {
      shard.push(ids, gradients);
      if (saver.needToCheckpoint(shard.version)) void checkpoint(shard.copy()).catch(failed);
    },
  });
  const rowCount = shard.state.rows.reduce((sum, { length }) => sum + length, 0) / DIM;
  report({ type: 'ready', port, version: shard.version, rowCount });
}

async function restore(): Promise<ParameterShard | null> {
  const latest = await manager.latest();
  if (latest === null) return null;
  await using shards = await openCheckpointShards(latest);
  return fromModelShard(await restoreShard(shards, position), shape, position);
}

/** Training continues on the original meanwhile. */
async function checkpoint(copy: ParameterShard): Promise<void> {
  const { version } = copy;
  saved.set(version, copy);
  if (position.index > 0) await deliver(version, {});
  report({ type: 'has', version });
}

/** Does not wait for the other servers. The server that delivers last commits. */
async function deliver(version: number, metrics: Readonly<Record<string, number>>): Promise<void> {
  const copy = saved.get(version);
  if (copy === undefined) throw new Error(`server ${position.index} has no version ${version} to save`);
  const { isCommitted } = await saver.save(version, toModelShard(copy), { metrics });
  if (isCommitted) report({ type: 'committed', version });
}

async function pause(): Promise<void> {
  const told = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  report({ type: 'halfway' });
  await told;
}

async function obey(command: ServerCommand): Promise<void> {
  switch (command.type) {
    case 'save':
      return deliver(command.version, command.metrics);
    case 'forget before':
      for (const version of saved.keys()) if (version < command.version) saved.delete(version);
      return;
    case 'go on':
      return goOn();
    case 'close':
      await manager.close();
      process.exit();
  }
}

function failed(error: unknown): void {
  const { code, message } = toCheckpointError(error);
  report({ type: 'failed', code, message });
}

function report(message: ServerReport): void {
  process.send?.(message);
}

process.on('message', (command: ServerCommand) => void obey(command).catch(failed));
// The demo has ended, so this server exits too.
process.on('disconnect', () => process.exit());
await start().catch(failed);
