import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { CheckpointError } from '@holdfast/core/contract';
import { RecoverableError, StopException } from '../errors.ts';
import { type Answer, answerOf } from './answers.ts';
import { AwakeTimer } from './awake-timer.ts';
import { type Frame, FrameReader, writeFrame } from './frames.ts';

export interface ConnectionOptions {
  readonly host: string;
  readonly port: number;
  /**
   * Longest wait for the connection, and for the answer to a call. Time in which this process is
   * frozen does not count.
   */
  readonly timeoutMs: number;
}

interface Pending {
  resolve(frame: Frame): void;
  reject(error: Error): void;
  readonly timer: AwakeTimer;
}

/**
 * A worker's calls to the server. `RecoverableError`: the connection is lost, and with it the
 * server's record of this worker. `TimedOut`: the server does not answer, and the connection is
 * closed. Keeps the process alive only while a call waits for its answer.
 */
export class Connection {
  readonly #socket: Socket;
  readonly #options: ConnectionOptions;
  readonly #pending = new Map<number, Pending>();
  #nextId = 0;

  /** `Unavailable`: no server listens there. */
  static async open(options: ConnectionOptions): Promise<Connection> {
    const { host, port, timeoutMs } = options;
    const socket = connect({ host, port, noDelay: true });
    const onEnd = () => socket.destroy(new Error(`no connection within ${timeoutMs} ms`));
    const timer = new AwakeTimer({ timeoutMs, heardBytes: () => 0, onEnd });
    try {
      await once(socket, 'connect');
    } catch (cause) {
      socket.destroy();
      throw new CheckpointError('Unavailable', `there is no rendezvous server at ${host}:${port}`, { cause });
    } finally {
      timer.cancel();
    }
    return new Connection(socket, options);
  }

  private constructor(socket: Socket, options: ConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    const reader = new FrameReader();
    socket.unref();
    socket.on('data', (chunk: Buffer) => {
      try {
        for (const frame of reader.push(chunk)) this.#settle(frame);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    let why = 'the server ended it';
    socket.on('error', (error) => {
      why = error.message;
    });
    socket.on('close', () => this.#fail(new RecoverableError(`the rendezvous connection is lost: ${why}`)));
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed && this.#socket.writable;
  }

  close(): void {
    this.#socket.destroy();
  }

  async call(header: Readonly<Record<string, unknown>>, body?: Uint8Array): Promise<Answer> {
    const frame = await this.#send(header, body);
    const answer = answerOf(frame);
    if (answer.outcome === 'recoverable') throw new RecoverableError(answer.message);
    if (answer.outcome === 'stop') throw new StopException('training has ended: no worker can join any more');
    if (answer.outcome === 'refused') throw new CheckpointError(answer.code, answer.message);
    return answer;
  }

  #send(header: Readonly<Record<string, unknown>>, body?: Uint8Array): Promise<Frame> {
    if (!this.isOpen) return Promise.reject(new RecoverableError('the rendezvous connection is lost'));
    const id = this.#nextId++;
    this.#socket.ref();
    return new Promise((resolve, reject) => {
      const timer = new AwakeTimer({
        timeoutMs: this.#options.timeoutMs,
        heardBytes: () => this.#socket.bytesRead,
        onEnd: () => this.#giveUp(),
      });
      this.#pending.set(id, { resolve, reject, timer });
      writeFrame(this.#socket, { id, ...header }, body === undefined ? [] : [body]);
    });
  }

  #settle(frame: Frame): void {
    const id = Number(frame.header['id']);
    const pending = this.#pending.get(id);
    if (pending === undefined) return;
    this.#pending.delete(id);
    pending.timer.cancel();
    if (this.#pending.size === 0) this.#socket.unref();
    pending.resolve(frame);
  }

  #giveUp(): void {
    // The server has ended the connection, and the 'close' event says so.
    if (!this.isOpen) {
      this.close();
      return;
    }
    const { host, port, timeoutMs } = this.#options;
    const message = `the rendezvous server at ${host}:${port} did not answer within ${timeoutMs} ms`;
    this.#fail(new CheckpointError('TimedOut', message));
    this.#socket.destroy();
  }

  #fail(error: Error): void {
    for (const pending of this.#pending.values()) {
      pending.timer.cancel();
      pending.reject(error);
    }
    this.#pending.clear();
  }
}
