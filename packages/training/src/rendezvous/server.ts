/** The meeting point for workers of one machine: a TCP server on loopback. */

import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import {
  CheckpointError,
  checkOptions,
  isCheckpointError,
  optional,
  type Rules,
  TIMER_MS_MAX,
  wholeNumber,
} from '@holdfast/core/contract';
import { type Call, frameOf, type Tell } from './answers.ts';
import { afterEvents } from './awake-timer.ts';
import { type Frame, FrameReader, writeFrame } from './frames.ts';
import { Meeting } from './meeting.ts';
import { type Policy, WORKERS_MAX } from './policy.ts';
import { type Request, requestOf } from './requests.ts';

const HOST = '127.0.0.1';
const LAST_CALL_MS = 1000;
/** From a worker's connection to its join request. */
const JOIN_TIMEOUT_MS = 30_000;

export interface RendezvousServerOptions {
  /** Default: any free port. */
  readonly port?: number | undefined;
  /**
   * How long to wait for one more worker once enough are present, in milliseconds. Each arrival
   * restarts the time. Default 1,000.
   */
  readonly lastCallMs?: number | undefined;
}

const OPTIONS: Rules<RendezvousServerOptions> = {
  port: optional(wholeNumber(0, 65_535)),
  lastCallMs: optional(wholeNumber(0, TIMER_MS_MAX)),
};

/**
 * Start it in the process that launches the workers, or in any other process that outlives them. It
 * keeps nothing on disk. Every process on this machine can connect. Once a worker has said that
 * training is done, no worker can join again: use one server for each job.
 */
export class RendezvousServer implements AsyncDisposable {
  readonly host = HOST;
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Map<number, Socket>();
  readonly #joinTimers = new Map<number, NodeJS.Timeout>();
  readonly #meeting: Meeting;
  #nextWorker = 0;
  #timer: NodeJS.Timeout | undefined;

  /**
   * Resolves when workers can connect. `InvalidArgument`: an option is out of range. Rejects with
   * the system's error if the port is taken.
   */
  static async start(options: RendezvousServerOptions = {}): Promise<RendezvousServer> {
    checkOptions(options, OPTIONS);
    const { port = 0, lastCallMs = LAST_CALL_MS } = options;
    const server = createServer({ noDelay: true });
    server.maxConnections = WORKERS_MAX;
    server.listen(port, HOST);
    await once(server, 'listening');
    return new RendezvousServer(server, lastCallMs);
  }

  private constructor(server: Server, lastCallMs: number) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    const expel = (worker: number) => this.#drop(worker);
    this.#meeting = new Meeting({ lastCallMs, tell: this.#tell, expel });
    server.on('connection', (socket) => this.#receive(socket));
  }

  /**
   * Ends all connections: remaining workers get a `RecoverableError` and then find no server. Safe
   * to repeat.
   */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const worker of [...this.#sockets.keys()]) this.#drop(worker);
    await closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #receive(socket: Socket): void {
    const worker = this.#nextWorker++;
    const reader = new FrameReader();
    this.#sockets.set(worker, socket);
    socket.on('data', (chunk: Buffer) => {
      try {
        for (const frame of reader.push(chunk)) this.#handle(worker, frame);
      } catch (error) {
        if (!isCheckpointError(error, 'InvalidArgument')) throw error;
        // The sender is not a worker, or a broken one; it would not understand an answer.
        socket.destroy();
      }
    });
    this.#joinTimers.set(
      worker,
      setTimeout(() => socket.destroy(), JOIN_TIMEOUT_MS),
    );
    // The 'close' event follows and does the rest.
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      clearTimeout(this.#joinTimers.get(worker));
      this.#joinTimers.delete(worker);
      this.#lost(worker);
    });
  }

  #handle(worker: number, frame: Frame): void {
    // Ignore what an expelled worker sent before its connection ended.
    if (!this.#sockets.has(worker)) return;
    const request = requestOf(frame);
    if (this.#meeting.has(worker) === (request.type === 'join')) {
      throw new CheckpointError('InvalidArgument', 'a worker must join once, before any other request');
    }
    const call: Call = { worker, id: request.id };
    this.#answer(call, request);
    this.#setTimer();
  }

  #answer(call: Call, request: Request): void {
    const nowMs = performance.now();
    if (request.type === 'join') this.#join(call, request.policy);
    else if (request.type === 'rendezvous') this.#meeting.rendezvous(call, nowMs);
    else if (request.type === 'gather') this.#meeting.gather(call, request.contribution, nowMs);
    else if (request.type === 'vote') this.#meeting.vote(call, request.seq);
    else this.#meeting.finish(call, nowMs);
  }

  #join(call: Call, policy: Policy): void {
    const refusal = this.#meeting.enter(call.worker, policy);
    // From here on the deadlines of the other workers apply.
    if (refusal === null) clearTimeout(this.#joinTimers.get(call.worker));
    this.#tell(
      call,
      refusal === null
        ? { outcome: 'done' }
        : { outcome: 'refused', code: 'InvalidArgument', message: refusal },
    );
  }

  readonly #tell: Tell = ({ worker, id }, answer) => {
    const socket = this.#sockets.get(worker);
    if (socket === undefined) return;
    const { header, body } = frameOf(answer);
    writeFrame(socket, { id, ...header }, body);
  };

  #lost(worker: number): void {
    if (!this.#sockets.delete(worker)) return;
    this.#meeting.leave(worker, performance.now());
    this.#setTimer();
  }

  #drop(worker: number): void {
    const socket = this.#sockets.get(worker);
    this.#sockets.delete(worker);
    socket?.destroy();
  }

  #setTimer(): void {
    clearTimeout(this.#timer);
    const dueMs = this.#meeting.nextTickMs();
    if (dueMs === Number.POSITIVE_INFINITY || !this.#server.listening) return;
    const waitMs = Math.min(Math.max(0, Math.ceil(dueMs - performance.now())), TIMER_MS_MAX);
    // If this process was frozen, workers may have come long ago: their requests are read first.
    this.#timer = setTimeout(() => afterEvents(() => this.#tick()), waitMs);
  }

  #tick(): void {
    this.#meeting.tick(performance.now());
    this.#setTimer();
  }
}
