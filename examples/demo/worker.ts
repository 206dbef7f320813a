/**
 * A worker process. It trains on its share of the clicks or judges the model. It keeps no state,
 * because the model is on the parameter servers.
 */

import { heldOut, trainingBatch } from './clicks.ts';
import { type Evaluation, evaluate } from './evaluation.ts';
import type { Shape } from './parameters.ts';
import { NOW, RemoteServer } from './remote-server.ts';
import { SharedModel } from './shared-model.ts';

export interface WorkerSetup {
  /** The stream of clicks to train on. */
  readonly stream: number;
  readonly shape: Shape;
}

export type WorkerCommand =
  /** New addresses of the parameter servers, in their order. */
  | { readonly type: 'connect'; readonly ports: readonly number[] }
  /** Steps `from` to `until - 1` of this trainer. Each is one update of every server. */
  | { readonly type: 'train'; readonly from: number; readonly until: number }
  /** Judges the model of version `version` from the shards that the servers keep. */
  | { readonly type: 'evaluate'; readonly version: number };

export type WorkerReport =
  | { readonly type: 'connected' }
  /** The mean loss of each step's batch, before the update. */
  | { readonly type: 'trained'; readonly losses: readonly number[] }
  | { readonly type: 'evaluated'; readonly version: number; readonly evaluation: Evaluation }
  | { readonly type: 'failed'; readonly message: string };

const { stream, shape } = JSON.parse(process.argv[2] ?? '') as WorkerSetup;
let ports: readonly number[] = [];
let servers: readonly RemoteServer[] = [];

function connect(version: number): Promise<RemoteServer[]> {
  const count = ports.length;
  return Promise.all(ports.map((port, at) => RemoteServer.connect(port, { index: at, count }, version)));
}

async function train(from: number, until: number): Promise<WorkerReport> {
  const model = new SharedModel(servers);
  const losses: number[] = [];
  for (let step = from; step < until; step++)
    losses.push(await model.learn(trainingBatch(shape, stream, step)));
  return { type: 'trained', losses };
}

async function judge(version: number): Promise<WorkerReport> {
  const asOfVersion = await connect(version);
  try {
    const batch = heldOut(shape);
    const predictions = await new SharedModel(asOfVersion).predict(batch);
    return { type: 'evaluated', version, evaluation: evaluate(predictions, batch) };
  } finally {
    for (const server of asOfVersion) server.close();
  }
}

async function obey(command: WorkerCommand): Promise<WorkerReport> {
  switch (command.type) {
    case 'connect':
      for (const server of servers) server.close();
      ports = command.ports;
      servers = await connect(NOW);
      return { type: 'connected' };
    case 'train':
      return train(command.from, command.until);
    case 'evaluate':
      return judge(command.version);
  }
}

function failed(error: unknown): WorkerReport {
  return { type: 'failed', message: error instanceof Error ? error.message : String(error) };
}

process.on('message', async (command: WorkerCommand) => {
  const report = await obey(command).catch(failed);
  process.send?.(report);
});
// The demo has ended, so this worker exits too.
process.on('disconnect', () => process.exit());
