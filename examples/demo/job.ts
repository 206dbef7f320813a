/**
 * The job: parameter servers, trainers, and an evaluator that judges what the servers save.
 * ElasticDL calls this process the master.
 */

import { DemoFailure } from './checks.ts';
import { Child } from './child.ts';
import type { Evaluation } from './evaluation.ts';
import type { ServerCommand, ServerReport, ServerSetup } from './parameter-server.ts';
import type { Shape } from './parameters.ts';
import type { WorkerCommand, WorkerReport, WorkerSetup } from './worker.ts';

export const TRAINER_COUNT = 2;

export interface JobSetup {
  readonly uri: string;
  /** The life of the job: 1, 2, … */
  readonly attempt: number;
  readonly serverCount: number;
  readonly shape: Shape;
  /** An even number, so that each trainer does half of the steps. */
  readonly checkpointSteps: number;
  /**
   * Servers that pause for the story: by server index, the version whose save the server
   * interrupts.
   */
  readonly pauses?: Readonly<Record<number, number>> | undefined;
}

export type Server = Child<ServerCommand, ServerReport>;
export type Worker = Child<WorkerCommand, WorkerReport>;

/** Quality of the model on the examples of one update, before it learned from them. */
export interface LossPoint {
  readonly update: number;
  readonly loss: number;
}

/** Every wait rejects when a process fails or is lost and the story does not intend that. */
export class Job {
  readonly setup: JobSetup;
  readonly servers: Server[] = [];
  readonly losses: LossPoint[] = [];
  readonly #trainers: Worker[];
  readonly #judge: Worker;
  readonly #ports: number[] = [];
  readonly #failure = Promise.withResolvers<never>();
  /** Processes whose end or failure is part of the story. */
  readonly #givenUp = new Set<unknown>();
  /**
   * By version, the servers that have saved it. Server 0 counts when it has put the version aside.
   */
  readonly #having = new Map<number, Set<number>>();
  readonly #evaluations = new Map<number, Evaluation>();
  readonly #commits = new Map<number, PromiseWithResolvers<Evaluation>>();
  #judging: Promise<unknown> = Promise.resolve();
  /** Steps that each trainer has completed. */
  #step = 0;
  #version = 0;
  #rowCount = 0;

  private constructor(setup: JobSetup) {
    this.setup = setup;
    this.#failure.promise.catch(() => undefined); // each wait reports the failure
    this.#trainers = Array.from({ length: TRAINER_COUNT }, (_, index) =>
      // Each life has its own streams. A server's share in the checkpoint may already contain an
      // update that other servers lost.
      this.#startWorker(`trainer ${index}`, (setup.attempt - 1) * TRAINER_COUNT + index),
    );
    this.#judge = this.#startWorker('the judging worker', -1);
  }

  static async start(setup: JobSetup): Promise<Job> {
    const job = new Job(setup);
    await Promise.all(Array.from({ length: setup.serverCount }, (_, index) => job.#startServer(index)));
    await job.#connect();
    job.#step = job.#version / TRAINER_COUNT;
    return job;
  }

  /** The version that the servers restored, or 0 if they restored none. */
  get version(): number {
    return this.#version;
  }

  /** Rows of all tables on all servers at their start. */
  get rowCount(): number {
    return this.#rowCount;
  }

  get processes(): readonly (Server | Worker)[] {
    return [...this.servers, ...this.#trainers, this.#judge];
  }

  /**
   * Resolves when the trainers have made this many updates. `losses` then contains them. Servers
   * may still be saving.
   */
  async train(updates: number): Promise<void> {
    const until = updates / TRAINER_COUNT;
    const from = this.#step;
    const train = async (trainer: Worker, index: number) => {
      const trained = trainer.next('trained');
      trainer.send({ type: 'train', from, until });
      const { losses } = await this.#survive(trainer, trained);
      for (const [i, loss] of losses.entries()) {
        this.losses.push({ update: (from + i) * TRAINER_COUNT + index, loss });
      }
    };
    await Promise.all(this.#trainers.map(train));
    this.#step = until;
    this.losses.sort((a, b) => a.update - b.update);
  }

  /** Resolves to the evaluation of the version when it is committed. */
  committed(version: number): Promise<Evaluation> {
    return this.#orFail(this.#commitOf(version).promise);
  }

  /**
   * Resolves when these servers have delivered their shares. Server 0 must not be among them,
   * because it reports before it delivers.
   */
  async delivered(version: number, indexes: readonly number[]): Promise<void> {
    const missing = indexes.find((index) => !this.#having.get(version)?.has(index));
    if (missing === undefined) return;
    await this.#survive(this.server(missing), this.server(missing).next('has'));
    await this.delivered(version, indexes);
  }

  /** Evaluates the model of this version from the shares that the servers keep. */
  async evaluate(version: number): Promise<Evaluation> {
    const evaluated = this.#judge.next('evaluated');
    this.#judge.send({ type: 'evaluate', version });
    return (await this.#survive(this.#judge, evaluated)).evaluation;
  }

  server(index: number): Server {
    const server = this.servers[index];
    if (server === undefined) throw new Error(`there is no server ${index}`);
    return server;
  }

  /** Resolves when the server pauses in the middle of a save. */
  async halfway(index: number): Promise<void> {
    await this.#survive(this.server(index), this.server(index).next('halfway'));
  }

  /** From now on a failure or the end of this process does not fail the job. */
  giveUp(process: Server | Worker): void {
    this.#givenUp.add(process);
  }

  async kill(process: Server | Worker): Promise<void> {
    this.giveUp(process);
    await process.kill();
  }

  /**
   * Starts a new life of a server that was killed. It restores its share, and the workers connect
   * to it. Resolves to the restored version.
   */
  async restart(index: number): Promise<number> {
    const version = await this.#startServer(index);
    await this.#connect();
    return version;
  }

  async close(): Promise<void> {
    for (const process of this.processes) this.giveUp(process);
    for (const server of this.servers) server.send({ type: 'close' });
    await Promise.all(this.servers.map((server) => server.died));
    await Promise.all([...this.#trainers, this.#judge].map((worker) => worker.kill()));
  }

  #startWorker(name: string, stream: number): Worker {
    const { shape } = this.setup;
    const worker: Worker = new Child(name, './worker.ts', { stream, shape } satisfies WorkerSetup);
    this.#watch(worker, (report) => (report.type === 'failed' ? report.message : null));
    return worker;
  }

  async #startServer(index: number): Promise<number> {
    const { serverCount, pauses = {}, ...setup } = this.setup;
    const isRestarted = this.servers[index] !== undefined;
    const server: Server = new Child(`parameter server ${index}`, './parameter-server.ts', {
      ...setup,
      position: { index, count: serverCount },
      pauseAt: isRestarted ? null : (pauses[index] ?? null),
    } satisfies ServerSetup);
    this.#watch(server, (report) => (report.type === 'failed' ? `${report.message} (${report.code})` : null));
    server.listen((report) => this.#follow(index, report));
    this.servers[index] = server;
    const { port, version, rowCount } = await this.#survive(server, server.next('ready'));
    this.#ports[index] = port;
    if (!isRestarted) {
      this.#version = version;
      this.#rowCount += rowCount;
    }
    return version;
  }

  async #connect(): Promise<void> {
    const connect = async (worker: Worker) => {
      const connected = worker.next('connected');
      worker.send({ type: 'connect', ports: this.#ports });
      await this.#survive(worker, connected);
    };
    await Promise.all([...this.#trainers, this.#judge].map(connect));
  }

  #follow(index: number, report: ServerReport): void {
    if (report.type === 'has') {
      const having = this.#having.get(report.version) ?? new Set();
      this.#having.set(report.version, having.add(index));
      if (having.size === this.setup.serverCount) this.#judgeNext(report.version);
    }
    if (report.type === 'committed') {
      const { version } = report;
      for (const server of this.servers) server.send({ type: 'forget before', version });
      const evaluation = this.#evaluations.get(version);
      if (evaluation !== undefined) this.#commitOf(version).resolve(evaluation);
    }
  }

  /** Judges one version after the other, because server 0 saves them in their order. */
  #judgeNext(version: number): void {
    this.#judging = this.#judging
      .then(() => this.evaluate(version))
      .then((evaluation) => {
        const { loss, auc } = evaluation;
        this.#evaluations.set(version, evaluation);
        this.server(0).send({ type: 'save', version, metrics: { loss, auc } });
      })
      .catch(this.#failure.reject);
  }

  #commitOf(version: number): PromiseWithResolvers<Evaluation> {
    const commit = this.#commits.get(version) ?? Promise.withResolvers<Evaluation>();
    this.#commits.set(version, commit);
    return commit;
  }

  #watch<Command extends object, Report extends { readonly type: string }>(
    child: Child<Command, Report>,
    failureOf: (report: Report) => string | null,
  ): void {
    const fail = (why: string) => {
      if (!this.#givenUp.has(child)) this.#failure.reject(new DemoFailure(`${child.name}: ${why}`));
    };
    child.listen((report) => {
      const why = failureOf(report);
      if (why !== null) fail(why);
    });
    void child.died.then(() => fail('it died'));
  }

  async #survive<T>(child: { readonly name: string }, report: Promise<T | null>): Promise<T> {
    const given = await this.#orFail(report);
    if (given === null) throw new DemoFailure(`${child.name}: it died`);
    return given;
  }

  #orFail<T>(promise: Promise<T>): Promise<T> {
    return Promise.race([promise, this.#failure.promise]);
  }
}
