/** A client that checks every answer of an agent, and stands for trainers. */

import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { Agent as HttpAgent, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { CALLS, type CallName, type CallShape } from '@holdfast/agent/internal/api/calls';
import { problem, type SaveView } from '@holdfast/agent/internal/api/shapes';

export function hex(): string {
  return randomBytes(16).toString('hex');
}

export interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

export class AgentClient {
  readonly socket: string;
  readonly #connections = new HttpAgent({ keepAlive: true });

  constructor(socket: string) {
    this.socket = socket;
  }

  disconnect(): void {
    this.#connections.destroy();
  }

  /** A call by its name in the table. Its answer must have the shape that the table says. */
  async call(
    name: CallName,
    given: {
      readonly path?: Readonly<Record<string, string>>;
      readonly query?: Readonly<Record<string, string>>;
      readonly body?: unknown;
      readonly headers?: Readonly<Record<string, string>>;
    } = {},
  ): Promise<Answer> {
    const shape: CallShape = CALLS[name];
    const path = shape.path.replace(/\{(\w+)\}/g, (_, parameter: string) => given.path?.[parameter] ?? '');
    const query = new URLSearchParams(given.query).toString();
    const { status, bytes } = await this.raw({
      method: shape.method,
      path: query === '' ? path : `${path}?${query}`,
      ...(given.body !== undefined && { body: JSON.stringify(given.body) }),
      ...(given.headers && { headers: given.headers }),
    });
    const body = JSON.parse(bytes.toString('utf8')) as Record<string, unknown>;
    if (status >= 400 && name !== 'health') problem.parse(body);
    else if (typeof shape.answer !== 'string') shape.answer.parse(body);
    return { status, body };
  }

  async raw(wanted: {
    readonly method: string;
    readonly path: string;
    readonly body?: string;
    readonly headers?: Readonly<Record<string, string>>;
  }): Promise<{ status: number; bytes: Buffer; headers: IncomingMessage['headers'] }> {
    const { method, path, body, headers = {} } = wanted;
    return new Promise((resolve, reject) => {
      const asked = request(
        { socketPath: this.socket, agent: this.#connections, method, path, headers },
        (response) => {
          const chunks: Buffer[] = [];
          response.on('data', (chunk: Buffer) => chunks.push(chunk));
          response.once('error', reject);
          response.once('end', () => {
            resolve({
              status: response.statusCode ?? 0,
              bytes: Buffer.concat(chunks),
              headers: response.headers,
            });
          });
        },
      );
      asked.once('error', reject);
      asked.end(body);
    });
  }

  async trainer(uri: string, more: Readonly<Record<string, unknown>> = {}): Promise<Trainer> {
    const body = { uri, attempt: 'a', life: hex(), pid: process.pid, ...more };
    const { status, body: joined } = await this.call('join', { body });
    if (status !== 201) throw Object.assign(new Error(String(joined.message)), { code: joined.code });
    return new Trainer(this, joined as { writerId: string; stage: { directory: string } });
  }
}

/** A writer as a client sees it. */
export class Trainer {
  readonly agent: AgentClient;
  readonly writerId: string;
  readonly stage: string;
  #stopListening: () => void = () => undefined;
  readonly events: { type: string; state?: string; version?: string }[] = [];

  constructor(agent: AgentClient, joined: { writerId: string; stage: { directory: string } }) {
    this.agent = agent;
    this.writerId = joined.writerId;
    this.stage = joined.stage.directory;
  }

  /** Holds the connection that stands for the trainer's life. */
  async listen(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const path = `/v1/writers/${this.writerId}/events`;
      const asked = request({ socketPath: this.agent.socket, path }, (response) => {
        let text = '';
        response.on('data', (chunk: Buffer) => {
          const lines = (text + chunk.toString('utf8')).split('\n');
          text = lines.pop() ?? '';
          this.events.push(...lines.map((line) => JSON.parse(line)));
          resolve();
        });
        response.on('error', () => undefined);
      });
      asked.once('error', reject);
      asked.end();
      this.#stopListening = () => asked.destroy();
    });
  }

  /** As if its process had ended. */
  die(): void {
    this.#stopListening();
  }

  /** Puts bytes into a segment, and names them as a file. */
  staged(name: string, bytes: Uint8Array | string = `bytes of ${name}`) {
    const path = join(this.stage, `segment-${hex()}`);
    writeFileSync(path, bytes, { mode: 0o600 });
    return { name, source: { path } };
  }

  /** Names of the records of its sealed saves that have not ended. */
  sealed(): string[] {
    return readdirSync(this.stage).filter((name) => {
      if (!/^seal-\w+\.json$/.test(name)) return false;
      return JSON.parse(readFileSync(join(this.stage, name), 'utf8')).committed === undefined;
    });
  }

  async begin(version: number, more: Readonly<Record<string, unknown>> = {}): Promise<Answer> {
    const body = { saveId: hex(), version, files: [this.staged('model.bin', `model ${version}`)], ...more };
    return this.agent.call('save', { path: { writerId: this.writerId }, body });
  }

  async save(version: number, more: Readonly<Record<string, unknown>> = {}): Promise<SaveView> {
    const { status, body } = await this.begin(version, more);
    if (status !== 202) throw Object.assign(new Error(String(body.message)), { code: body.code });
    return this.ended(body.saveId as string);
  }

  async ended(saveId: string, wait = 'committed'): Promise<SaveView> {
    const path = { writerId: this.writerId, saveId };
    return (await this.agent.call('saveState', { path, query: { wait } })).body as SaveView;
  }
}
