/** A parameter server in another process, over a socket. `serve` is the other end. */

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { KIND, readFrames, type Words, writeFrame } from './frames.ts';
import type { ParameterShard, Parameters } from './parameter-shard.ts';
import { DIM, TABLE_NAMES } from './parameters.ts';
import { type Position, variablesOf } from './placement.ts';
import type { ServerLink } from './shared-model.ts';

/**
 * Asks for the current model. Any other number asks for the checkpoint of this version that the
 * server keeps.
 */
export const NOW = -1;

/** The server answers requests in their order. */
export class RemoteServer implements ServerLink {
  readonly #socket: Socket;
  readonly #version: number;
  readonly #denseLengths: readonly number[];
  readonly #waiting: PromiseWithResolvers<Words>[] = [];

  private constructor(socket: Socket, position: Position, version: number) {
    this.#socket = socket;
    this.#version = version;
    this.#denseLengths = variablesOf(position).map(({ length }) => length);
    void this.#listen();
  }

  static async connect(port: number, position: Position, version = NOW): Promise<RemoteServer> {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    await once(socket, 'connect');
    return new RemoteServer(socket, position, version);
  }

  async pull(ids: readonly Int32Array[]): Promise<Parameters> {
    const counts = Int32Array.from(ids, ({ length }) => length);
    const body = await this.#ask(KIND.pull, [Int32Array.of(this.#version), counts, ...ids]);
    return takeParameters(body, counts, this.#denseLengths);
  }

  async push(ids: readonly Int32Array[], { rows, dense }: Parameters): Promise<void> {
    const counts = Int32Array.from(ids, ({ length }) => length);
    await this.#ask(KIND.push, [counts, ...ids, ...rows, ...dense]);
  }

  close(): void {
    this.#socket.destroy();
  }

  #ask(kind: number, parts: readonly (Int32Array | Float32Array)[]): Promise<Words> {
    const answer = Promise.withResolvers<Words>();
    this.#waiting.push(answer);
    writeFrame(this.#socket, kind, parts);
    return answer.promise;
  }

  async #listen(): Promise<void> {
    let reason: unknown = new Error('a parameter server has gone');
    try {
      for await (const { kind, body } of readFrames(this.#socket)) {
        const answer = this.#waiting.shift();
        if (kind === KIND.done) answer?.resolve(body);
        else answer?.reject(new Error('the parameter server has no such checkpoint any more'));
      }
    } catch (error) {
      reason = error;
    }
    for (const answer of this.#waiting.splice(0)) answer.reject(reason);
  }
}

/** Handlers of the requests to a server. */
export interface Answers {
  /** `null` if the server keeps no shard of this version. */
  shardAt(version: number): ParameterShard | null;
  push(ids: readonly Int32Array[], gradients: Parameters): void;
}

/** Listens on a free port and resolves to it. */
export async function serve(position: Position, answers: Answers): Promise<number> {
  const denseLengths = variablesOf(position).map(({ length }) => length);
  const server = createServer({ noDelay: true }, (socket) => {
    void answerAll(socket, denseLengths, answers);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

async function answerAll(socket: Socket, denseLengths: readonly number[], answers: Answers): Promise<void> {
  try {
    for await (const { kind, body } of readFrames(socket)) {
      if (kind === KIND.push) answerPush(socket, body, denseLengths, answers);
      else answerPull(socket, body, answers);
    }
  } catch {
    socket.destroy(); // a worker was killed: no process waits for the answer
  }
}

function answerPush(socket: Socket, body: Words, denseLengths: readonly number[], answers: Answers): void {
  const { counts, ids } = takeIds(body);
  answers.push(ids, takeParameters(body, counts, denseLengths));
  writeFrame(socket, KIND.done, []);
}

function answerPull(socket: Socket, body: Words, answers: Answers): void {
  const shard = answers.shardAt(body.integers(1)[0] as number);
  if (shard === null) {
    writeFrame(socket, KIND.refused, []);
    return;
  }
  const { rows, dense } = shard.pull(takeIds(body).ids);
  writeFrame(socket, KIND.done, [...rows, ...dense]);
}

function takeIds(body: Words): { counts: Int32Array; ids: Int32Array[] } {
  const counts = body.integers(TABLE_NAMES.length);
  return { counts, ids: Array.from(counts, (count) => body.integers(count)) };
}

function takeParameters(body: Words, counts: Int32Array, denseLengths: readonly number[]): Parameters {
  const rows = Array.from(counts, (count) => body.floats(count * DIM));
  return { rows, dense: denseLengths.map((length) => body.floats(length)) };
}
