/**
 * A parameter server process: it holds a share of the model, applies what trainers push, and saves its share at every `checkpointSteps`
 * of its own updates. Started again, it goes on from the latest checkpoint, however many servers had saved that.
 *
 * Server 0 saves last: with the version goes how good the model is, and that is judged on what all servers have saved.
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
  /** Which life of the job this is: 1, 2, … */
  readonly attempt: number;
  readonly position: Position;
  readonly shape: Shape;
  readonly checkpointSteps: number;
  /** For the story: it pauses in the middle of saving this version, and reports that it is halfway. */
  readonly pauseAt: number | null;
}

export type ServerCommand =
  /** To server 0: all others have saved this version, and this is what the model was found to be worth. */
  | { readonly type: 'save'; readonly version: number; readonly metrics: Readonly<Record<string, number>> }
  /** This version is committed: nobody asks for older ones any more. */
  | { readonly type: 'forget before'; readonly version: number }
  | { readonly type: 'go on' }
  | { readonly type: 'close' };

export type ServerReport =
  /** `version`: the one restored; 0 if there was none. */
  | { readonly type: 'ready'; readonly port: number; readonly version: number; readonly rowCount: number }
  /** Server 0 has put this version aside; the others have delivered theirs. */
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
/** The model as it was saved, by version: for whoever judges it. */
const saved = new Map<number, ParameterShard>();
let shard: ParameterShard;

async function start(): Promise<void> {
  // From here on no earlier attempt can commit, nor an earlier life of this server: what is the latest now stays it.
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

/** Training goes on meanwhile, on the original. */
async function checkpoint(copy: ParameterShard): Promise<void> {
  const { version } = copy;
  saved.set(version, copy);
  if (position.index > 0) await deliver(version, {});
  report({ type: 'has', version });
}

/** Does not wait for the others: whoever delivers last commits. */
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
// The demo has gone: a server without it has nothing to do.
process.on('disconnect', () => process.exit());
await start().catch(failed);
